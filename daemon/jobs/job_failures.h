// The cause of the failure of a job's assembly, and the consequence: the job tries again, at once
// or after some time, or it fails for good.
//
// A failure shows on two sides: the end of a process or worker, and the error of the run. The job
// waits a short time for the second of them. The first cause that a process or worker shows stays,
// because it says more than the error of the run, which often only says that a peer is gone. The
// ends of runners after that are not failures, and neither are those that the master asked for.
// An error that another process may show first when one ends, such as a call that was given up, is
// the cause only if no process of the job ends in that time.
//
// A job that fails for a temporary cause (a lost or stuck worker, a runner's death) tries again, up
// to its max_restarts: at once if it has made progress since the last failure, and otherwise after
// some time (failure_budget.h). The third equal crash in a row at the same step fails the job. A
// signal from outside, such as SIGKILL, is not a crash. A lasting session that has nothing to do is
// not the cause of any: it tries again, after some time, however often its runners fail. A runner
// that fails while it starts counts as in other jobs, since the session may be the cause.
//
// Threads: one.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/failure_budget.h"
#include "daemon/jobs/job_runners.h"
#include "daemon/jobs/lost_links.h"
#include "daemon/jobs/table_context.h"

namespace leat {

struct JobFailure {
  std::string text;
  std::string how;                     // the part about a process or worker; may be empty
  std::string of_run;                  // the error of the run; may be empty
  std::string device;                  // how a GPU of the culprit failed; may be empty
  std::string culprit;                 // the worker, if it is one
  int64_t at_ms = 0;                   // of Unix time
  int64_t detected_after = -1;         // as in LostAssembly
  bool may_pass = false;               // another attempt may succeed
  bool keeps = false;                  // other runners continue in the next assembly
  bool counts = true;                  // as one of the job's restarts
  bool crash = false;                  // the job itself seems to be the cause
  int alike = 1;                       // equal failures in a row, with this one
  bool stuck = false;                  // the culprit does not end by itself
  bool idle = false;                   // AssemblyRun::idle()
  uint64_t step = 0;                   // where the job was
  Clock::Steady seen{};                // when it was first seen
  std::optional<Clock::Steady> until;  // the job waits for the other side

  std::string reason() const;
  // True if both are crashes at the same step, on any workers, and the job was at work.
  bool same_as(const JobFailure& other) const;
};

class JobFailures {
 public:
  struct Verdict {
    bool tries_again = false;
    std::string reason;
  };

  // All of them outlive this.
  JobFailures(TableContext& context, const StoredJob& job, JobRunners& runners)
      : context_(context), job_(job), runners_(runners) {}

  // Takes the number of failures from the journal.
  void restore();

  // A worker, or a runner on it, has failed. `subject` and `how` together make one text.
  void of_worker(const WorkerRef& worker, std::string subject, std::string how, bool crash,
                 std::optional<std::chrono::milliseconds> detected_after);
  // The worker does not do its part and does not end by itself: its runner is not kept.
  void of_stuck(const WorkerRef& worker, std::string subject, std::string how,
                std::chrono::milliseconds detected_after);
  // `culprit`: the worker that the run itself blames; may be empty.
  void of_run(const Status& error, const std::string& culprit = {});
  // Ends the assembly without a failure.
  void give_up(RunYield why, uint64_t step);
  void link_failed(const LinkFailed& event);
  void device_failed(const DeviceFailed& event);
  // How a GPU of this worker failed in this assembly, in its runner's words; "" if none did.
  std::string device_error_of(const WorkerRef& worker) const;

  // The failure of this assembly; null if there is none.
  JobFailure* now() { return now_ ? &*now_ : nullptr; }
  const JobFailure* now() const { return now_ ? &*now_ : nullptr; }
  // True while the other side of the failure may still show. REQUIRES: now(), as below.
  bool waits_for_more();
  // If a link has failed, decides which worker must leave, so that all others keep their memory.
  void judge_links();
  Verdict verdict();
  // The verdict is in the journal: the assembly ends, and the next one may have to wait.
  void settle(const std::string& reason);
  // Another assembly begins, or this one did not begin: forgets the facts about its workers.
  void renew() {
    links_.renew();
    devices_.clear();
  }
  void forget() { now_.reset(); }
  // The last assembly failed because of a worker that does not end by itself.
  bool last_was_stuck() const { return last_ && last_->stuck; }

  bool backs_off() const { return not_before_.has_value(); }
  // True if the time to wait is over.
  bool resume();

 private:
  bool may_be_silence() const;

  TableContext& context_;
  const StoredJob& job_;
  JobRunners& runners_;
  std::optional<JobFailure> now_;
  std::optional<JobFailure> last_;  // the failure of an earlier assembly
  FailureBudget budget_;
  std::optional<Clock::Steady> not_before_;  // the next assembly begins
  LostLinks links_;
  // Of this assembly, by worker: the first report of each.
  std::map<std::string, DeviceFailed, std::less<>> devices_;
};

}  // namespace leat
