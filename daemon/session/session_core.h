// The inside of a session: versions of the graph, callables, plans, and the steps in flight.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/session/callables.h"
#include "daemon/session/plan_cache.h"
#include "daemon/session/session.h"
#include "daemon/session/session_step.h"
#include "daemon/session/steps_in_flight.h"

namespace leat {

// Threads: any. Locks: extending_ before mutex_ before a step's own; the tickets' is never held
// with another.
class SessionCore {
 public:
  using Clock = std::chrono::steady_clock;

  SessionCore(HostGroup& hosts, SessionOptions options);
  ~SessionCore();

  const SessionOptions& options() const { return options_; }
  VariableTickets& tickets() { return job_->tickets; }

  Result<uint64_t> extend(uint64_t version, const Graph& graph);
  uint64_t version() const;
  Result<ResolvedSignature> resolve(const Signature& signature) const;
  Result<CallableId> add_callable(ResolvedSignature signature);
  Status release_callable(CallableId id);

  Result<StepHandle> start(const ResolvedSignature& signature, std::span<const Tensor> feeds,
                           Session::Deadline deadline, Session::Finished finished);
  Result<StepHandle> start_callable(CallableId id, std::span<const Tensor> feeds,
                                    Session::Deadline deadline, Session::Finished finished);
  void close();

  // Hands a failed step to the session's thread, which stops it. Threads: any. Never blocks.
  void retire(SessionStep& step);
  // The step is over and its handle destroyed: its run may serve another step.
  void give_back(SessionStep& step);

 private:
  Status closed_status() const;
  Result<std::shared_ptr<PlanEntry>> entry_for(const ResolvedSignature& signature,
                                               std::span<const Tensor> feeds,
                                               Clock::time_point deadline);
  std::shared_ptr<PlanEntry> find_entry(const std::string& key);
  Result<std::shared_ptr<SessionStep>> step_of(const std::shared_ptr<PlanEntry>& entry);
  void free_idle();
  Result<StepHandle> launch(const std::shared_ptr<PlanEntry>& entry, std::span<const Tensor> feeds,
                            Clock::time_point deadline, Session::Finished finished);
  Clock::time_point deadline_of(Session::Deadline deadline) const {
    return deadline ? *deadline : Clock::now() + options_.timeout;
  }
  std::vector<StepsInFlight::Numbered> in_flight() const;
  void watch();  // the session's thread

  HostGroup& hosts_;
  const SessionOptions options_;
  const std::shared_ptr<SessionJob> job_;
  std::mutex extending_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for the session's thread
  bool closed_ = false, stop_ = false;
  std::shared_ptr<const GraphVersion> version_;
  Callables callables_;
  PlanCache plans_;
  StepsInFlight steps_;
  std::vector<SessionStep*> failed_;                       // that the session's thread is to stop
  Clock::time_point wakes_at_ = Clock::time_point::max();  // the session's thread, at the latest
  std::thread watcher_;
};

}  // namespace leat
