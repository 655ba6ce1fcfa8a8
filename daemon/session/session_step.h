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
  uint64_t number = 0;  // of the session, from 0
  std::chrono::steady_clock::time_point deadline;
  std::function<void()> finished;  // may be empty
};

// The life of a step: begin, feed, launch; then it waits for its ticket, runs on the workers, and
// is over. If it fails, the session's thread first stops it everywhere, so that no part of the step
// still runs when the caller receives the error.
// Threads: begin, feed, launch and take_fetches from the owner's; the rest any.
class SessionStep final : public VariableTickets::Holder {
 public:
  using Clock = std::chrono::steady_clock;

  SessionStep(SessionCore& core, std::shared_ptr<PlanEntry> entry, std::unique_ptr<PlanRun> run);

  ~SessionStep() override { run_.reset(); }  // while the rest is there

  void begin(StepRequest request);
  Status feed(std::span<const Tensor> values);
  void launch();
  void wait();
  bool over() const { return over_.load(std::memory_order_acquire); }
  // REQUIRES: over().
  Result<std::vector<Tensor>> take_fetches();
  bool reusable() const { return cause_.ok(); }

  SessionCore& core() { return core_; }
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

  void admitted() override;
  std::string subject() const override { return subject(number_); }
  std::string subject(uint64_t number) const;  // "step 7 of session 's'"

 private:
  enum class State : uint8_t { idle, waiting, running, failing, over };
  void part_over(const Status& status);
  void finish();

  SessionCore& core_;
  const std::shared_ptr<PlanEntry> entry_;
  std::mutex run_mutex_;  // one call on the run at a time
  std::unique_ptr<PlanRun> run_;
  uint64_t turns_ = 0;
  uint64_t number_ = 0;
  Clock::time_point deadline_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> over_{true};
  State state_ = State::idle;
  bool has_ticket_ = false;
  size_t remaining_ = 0;  // partitions that are not finished, and one while it is being launched
  Status cause_;          // why it failed
  std::function<void()> finished_;
};

}  // namespace leat
