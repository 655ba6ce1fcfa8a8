// The inside of a session: versions of the graph, callables, plans, and the steps in flight.
// Session and StepHandle are the public interface; they check and translate, and this class does
// the work.
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

// The state of one session. Session owns it. Every step that it starts is in one of three places:
// in steps_, from launch() until its handle is destroyed or waited for; idle in the entry of its
// plan, where the next step of that plan takes it; or nowhere, after its run has failed or its plan
// was dropped.
//
// One thread of the object, "session", ends the steps whose deadline has passed, and stops failed
// steps on their hosts. Stopping blocks on the hosts, so no caller of the session and no driver
// thread does it.
// Threads: any. Locks: extending_ before mutex_ before a step's own; the tickets' is never held
// with another.
class SessionCore {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the session's thread. `hosts` outlives the object. `options.workers` is the number of
  // hosts itself, not 0.
  SessionCore(HostGroup& hosts, SessionOptions options);
  // Closes, then ends the thread. REQUIRES: no StepHandle is left.
  ~SessionCore();

  const SessionOptions& options() const { return options_; }
  // The tickets of the job: sessions of one job share them, so their steps take turns.
  VariableTickets& tickets() { return job_->tickets; }

  // As Session::extend(). Extensions run one after the other; steps start and run meanwhile.
  // failed_precondition if the session is closed, also if that happened while the graph was
  // checked.
  Result<uint64_t> extend(uint64_t version, const Graph& graph);
  uint64_t version() const;
  // Finds the names of the signature in the current version of the graph. failed_precondition if
  // the session is closed or has no graph yet; invalid_argument for a name that the graph does not
  // have, see GraphNames::resolve().
  Result<ResolvedSignature> resolve(const Signature& signature) const;
  // Keeps a resolved signature under a number that no other callable of the session gets.
  // failed_precondition if the session is closed.
  Result<CallableId> add_callable(ResolvedSignature signature);
  // Errors are those of Callables::release(), and failed_precondition if the session is closed.
  Status release_callable(CallableId id);

  // Both start a step and return once it is launched; the step may still wait for its ticket then.
  // They block while a plan is compiled, and while another session of the job compiles one:
  // deadline_exceeded if that lasts beyond the deadline. `feeds` are in the order of the signature.
  // invalid_argument if a feed does not fit its declared type. `finished` is called as
  // Session::Finished says; it is never called if the function returns an error.
  Result<StepHandle> start(const ResolvedSignature& signature, std::span<const Tensor> feeds,
                           Session::Deadline deadline, Session::Finished finished);
  Result<StepHandle> start_callable(CallableId id, std::span<const Tensor> feeds,
                                    Session::Deadline deadline, Session::Finished finished);
  // As the function of Session with this name.
  void set_next_number(uint64_t number);
  // Ends all steps with `cancelled` and waits until each is over. May be called by several threads.
  void close();

  // Hands a failed step to the session's thread, which stops it. Threads: any. Never blocks.
  void retire(SessionStep& step);
  // The step is over and its handle destroyed: its run may serve another step.
  void give_back(SessionStep& step);

 private:
  // The error of every call after close().
  Status closed_status() const;
  // The plan for these feeds: the one in the cache, or a new one. The key is the borders of the
  // signature and the shapes of the feeds; dtypes are fixed by the graph.
  Result<std::shared_ptr<PlanEntry>> entry_for(const ResolvedSignature& signature,
                                               std::span<const Tensor> feeds,
                                               Clock::time_point deadline);
  // Null if the cache has no plan of that key.
  std::shared_ptr<PlanEntry> find_entry(const std::string& key);
  // An idle run of the plan, or a newly registered one. If the hosts have no memory for another
  // run, all idle runs of the session are freed, and the registration is tried once more.
  Result<std::shared_ptr<SessionStep>> step_of(const std::shared_ptr<PlanEntry>& entry);
  // Frees the idle runs of all plans, outside the lock.
  void free_idle();
  // Feeds a run of the plan, numbers the step, and starts it.
  Result<StepHandle> launch(const std::shared_ptr<PlanEntry>& entry, std::span<const Tensor> feeds,
                            Clock::time_point deadline, Session::Finished finished);
  // A step without a deadline gets the timeout of the session's settings, counted from now.
  Clock::time_point deadline_of(Session::Deadline deadline) const {
    return deadline ? *deadline : Clock::now() + options_.timeout;
  }
  // A copy of the list, so that the caller can block on its steps without the lock.
  std::vector<StepsInFlight::Numbered> in_flight() const;
  // The function of the session's thread. It sleeps until the first deadline, or until retire() or
  // launch() wakes it.
  void watch();

  HostGroup& hosts_;
  const SessionOptions options_;
  // The state that the sessions of the job share: tickets, homes of variables, the compilation
  // lock.
  const std::shared_ptr<SessionJob> job_;
  // Held for a whole extend(), which may check a large graph for long.
  std::mutex extending_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for the session's thread
  bool closed_ = false, stop_ = false;
  // The current version; null before the first extend(). Callables and steps in flight keep the
  // version that they were resolved in.
  std::shared_ptr<const GraphVersion> version_;
  Callables callables_;
  PlanCache plans_;
  StepsInFlight steps_;
  // The steps that the session's thread is to stop. A failed step stays in steps_ until it is over,
  // so these pointers stay valid.
  std::vector<SessionStep*> failed_;
  // The session's thread wakes at this time at the latest; a step with an earlier deadline wakes
  // it.
  Clock::time_point wakes_at_ = Clock::time_point::max();
  std::thread watcher_;
};

}  // namespace leat
