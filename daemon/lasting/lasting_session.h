// A session that survives the loss of its hosts and of its process, and applies every step exactly
// once. docs/session.md, *Lasting sessions*, is its contract.
//
// A step is written to the record (session_log.h) before it runs. So the state of the hosts can
// always be computed again: from the saved variables, and the steps after them in the order of
// their numbers. The steps run one after the other, and a step that fails changes nothing: the
// hosts go back to the saved variables and repeat the steps before it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/lasting/kept_callables.h"
#include "daemon/lasting/kept_variables.h"
#include "daemon/lasting/sent_graph.h"
#include "daemon/lasting/session_log.h"
#include "daemon/lasting/shared_log.h"
#include "daemon/lasting/step_stop.h"
#include "daemon/session/session.h"
#include "devices/base/status.h"

namespace leat {

// Threads: one, which may block for long; halt(), cancel(), runs() and log() any.
class LastingSession {
 public:
  // REQUIRES: options.lasts().
  LastingSession(SessionOptions options, SentGraph::Read read_graph, SessionRecord record);
  ~LastingSession();

  // Opens the record, makes the session on `hosts`, and repeats what is not in the saved variables.
  // `hosts` outlives the call of suspend(). Errors: those of the hosts and of the record;
  // `unavailable` after halt(), or if `ended()` is true.
  Status resume(HostGroup& hosts, const std::function<bool()>& ended);
  // Lets the hosts go. The calls below need resume() again.
  void suspend();
  // The step that runs ends at once, and stays to be done; so does all else until the next
  // resume().
  void halt() { stop_->halt(); }
  // Deletes the record: the session is closed.
  void forget();

  // The calls of Session. They return when the record has them. `unavailable`: the hosts failed,
  // and resume() has to be called, on others perhaps; what was asked stays to be done, and the same
  // call may be made again.
  Result<uint64_t> extend(LoggedGraph graph);
  Result<CallableId> make_callable(const Signature& signature);
  Status release_callable(CallableId id);
  // Runs the step, or returns the outcome that it had. failed_precondition if its number is not the
  // next one, or is one whose outcome is no longer kept. A step that fails has changed nothing.
  StepOutcome run(LoggedStep step);
  // The outcome of a step that was taken. failed_precondition as above.
  StepOutcome outcome(uint64_t number) const;
  // The client has the outcomes up to this step: they need not be kept.
  void answered(uint64_t number);
  // The step ends with `cancelled` if it runs now.
  void cancel(uint64_t number) { stop_->cancel(number); }
  // True while the step of this number runs, and was not told to end.
  bool runs(uint64_t number) const { return stop_->runs(number); }
  // Saves the variables in the record.
  Status save();
  // The record, also before resume(): for the clients of the session, and for its end.
  SharedLog& log() { return log_; }

  // The number of the last step that was taken; the version of the graph. REQUIRES: resume().
  uint64_t steps() const { return numbers_.last; }
  uint64_t version() const { return graph_.version(); }
  // Not ok if the hosts or the record have failed, or halt() was called: only suspend() and
  // resume() make sense.
  const Status& cause() const { return broken_; }
  // Returns once a failure that is no call's error; "" if there was none.
  std::string take_warning() { return std::exchange(warning_, ""); }

 private:
  // Opens the record, and takes from it all but the saved variables.
  Status load();
  // Opens the inner session, and puts into it what the record has.
  Status rebuild();
  Status repeat_steps();
  Status make_session();
  // An attempt at a step of the record: whether it may have changed variables, and has read a file.
  struct Attempt {
    bool ran = false, files = false;
  };
  StepOutcome execute(const LoggedStep& step, Attempt& attempt);
  // Starts it. `stop`: its number for stop_.
  Result<StepHandle> start(const LoggedStep& step, const Signature& signature, uint64_t stop);
  // The step was executed: notes that in the record, and saves if that is due.
  Status finish(const LoggedStep& step, const Attempt& attempt, const StepOutcome& outcome);
  // Handles an error of a step: it failed by itself, or the hosts did.
  StepOutcome failed(const LoggedStep& step, const Status& error, const Attempt& attempt);
  Status break_off(const Status& cause);
  // True for an error that is not the step's.
  bool is_of_hosts(const Status& error) const;

  SessionOptions options_;
  SharedLog log_;
  bool loaded_ = false;
  SentGraph graph_;
  KeptCallables callables_;
  StepOutcomes outcomes_;
  // Numbers of steps: the last that was taken, the one that the hosts have done, that of the saved
  // variables, and the last whose outcome the client has.
  struct Numbers {
    uint64_t last = 0, done = 0, saved = 0, answered = 0;
  };
  Numbers numbers_;

  HostGroup* hosts_ = nullptr;
  std::unique_ptr<Session> session_;
  uint64_t inner_version_ = 0;
  KeptVariables variables_;
  Status broken_;
  std::string warning_;
  // A step may tell that it is over when the session is gone.
  const std::shared_ptr<StepStop> stop_ = std::make_shared<StepStop>();
};

}  // namespace leat
