// A registered plan of a session with the step that it runs, at most one at a time. A session has
// as many of these for one plan as there are steps of that plan in flight.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/hosts/variable_tickets.h"
#include "daemon/session/step_plan.h"

namespace leat {

class SessionCore;
struct PlanEntry;

// The parameters of one step.
struct StepRequest {
  // The number of the step in its session, counted from 0. Kernels see it as the step number, so
  // random ops draw from it.
  uint64_t number = 0;
  // After this moment the session's thread ends the step with deadline_exceeded.
  std::chrono::steady_clock::time_point deadline;
  // See Session::Finished. May be empty.
  std::function<void()> finished;
};

// The life of a step: begin, feed, launch; then it waits for its ticket, runs on the workers, and
// is over. If it fails, the session's thread first stops it everywhere, so that no part of the step
// still runs when the caller receives the error.
// Threads: begin, feed, launch and take_fetches from the owner's; the rest any.
class SessionStep final : public VariableTickets::Holder {
 public:
  using Clock = std::chrono::steady_clock;

  // `core` outlives the object. `run` is registered on all hosts of the plan and has not stepped
  // yet, or has finished all steps that it was allowed.
  SessionStep(SessionCore& core, std::shared_ptr<PlanEntry> entry, std::unique_ptr<PlanRun> run);

  ~SessionStep() override { run_.reset(); }  // while the rest is there

  // Takes over the parameters of the next step. From now on the step is not over, and end() may end
  // it. REQUIRES: over() and reusable().
  void begin(StepRequest request);
  // Sends the values to the hosts, in the order of the plan's feeds. Errors are those of
  // PlanRun::feed(); the run then serves no further step. REQUIRES: no step is under way.
  Status feed(std::span<const Tensor> values);
  // Takes the ticket and, once it is granted, allows the hosts the step. Never blocks on another
  // step: if the ticket must wait, the thread that gives the other ticket back starts this step.
  void launch();
  // Blocks until the step is over. It polls for a short time first, because a short step is over
  // before a thread could sleep and wake up. The session's thread ends the step after its deadline.
  void wait();
  // True from the end of a step until the next begin(). An acquire load: the results of the step
  // are visible after it.
  bool over() const { return over_.load(std::memory_order_acquire); }
  // REQUIRES: over(). Returns copies of the fetches in the order of the plan, or the error that
  // ended the step.
  Result<std::vector<Tensor>> take_fetches();
  // False once a step has failed: its run was stopped on the hosts and cannot step again.
  bool reusable() const { return cause_.ok(); }

  SessionCore& core() { return core_; }
  // REQUIRES: the session's lock, or the owner's thread.
  uint64_t number() const {
    return number_;
  }  // REQUIRES: the session's lock, or the owner's thread
  Clock::time_point deadline() const { return deadline_; }
  const std::shared_ptr<PlanEntry>& entry() const { return entry_; }

  // Ends step `number` if it is still that one and is not over; the first cause stays.
  void end(uint64_t number, const Status& cause);
  // Ends the step because its deadline has passed; the error names what it waited for.
  void expire(uint64_t number);
  // Stops all parts of the step and returns its ticket, after which it is over. Threads: the
  // session's.
  void retire();

  // The ticket is granted. The thread that gave back the ticket before it may call this.
  void admitted() override;
  std::string subject() const override { return subject(number_); }
  std::string subject(uint64_t number) const;  // "step 7 of session 's'"

 private:
  // A step goes from idle or over to waiting (for its ticket), to running, and to over; a step that
  // is ended or fails goes through failing.
  enum class State : uint8_t { idle, waiting, running, failing, over };
  // One partition has finished, or has failed. The driver's thread that finished it may call this,
  // so it neither blocks nor frees anything.
  void part_over(const Status& status);
  // Gives the ticket back, marks the step as over, and calls `finished`. The step may serve another
  // request before this returns.
  void finish();

  SessionCore& core_;
  const std::shared_ptr<PlanEntry> entry_;
  std::mutex run_mutex_;  // one call on the run at a time
  std::unique_ptr<PlanRun> run_;
  // The steps that the run was allowed so far. The run counts its own steps; the session's numbers
  // have gaps in it.
  uint64_t turns_ = 0;
  uint64_t number_ = 0;
  Clock::time_point deadline_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> over_{true};
  State state_ = State::idle;
  // Steps whose plan uses no variables, and steps that are not isolated, have none.
  bool has_ticket_ = false;
  // The partitions that have not called part_over() yet, and one more while the step is being
  // launched, so that the step cannot end under the launching thread.
  size_t remaining_ = 0;
  // The first failure. It stays ok as long as all steps of the run succeed.
  Status cause_;
  std::function<void()> finished_;
};

}  // namespace leat
