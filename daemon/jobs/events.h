// What happens to jobs, and what has to be done about it: the whole language between the table of
// jobs (job_table.h) and the daemon, or the simulator, that drives it.
//
// Threads: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "daemon/jobs/leases.h"
#include "daemon/jobs/progress.h"
#include "daemon/jobs/records.h"
#include "daemon/jobs/runner_end.h"
#include "devices/base/clock.h"
#include "transport/link_fault.h"

namespace leat {

// Both times of one moment: the date for people, the other for deadlines.
struct Moment {
  Clock::Steady steady;
  int64_t wall_ms = 0;  // of Unix time
};
inline Moment moment_of(const Clock& clock) {
  using std::chrono::milliseconds;
  const auto date = clock.now().time_since_epoch();
  return {clock.steady(), std::chrono::duration_cast<milliseconds>(date).count()};
}

// A job as people see it.
struct JobView {
  uint64_t number = 0;
  std::string id;
  std::string name;
  uint32_t num_workers = 1;
  uint32_t min_workers = 0;  // as Submission has it
  int64_t submitted_ms = 0;
  JobCondition condition;  // as in the journal; the reason also says what a waiting job waits for
  JobProgress progress;
  JobHistory history;    // in a list of jobs the count alone
  JobTimes times;        // until the last event or tick of the table
  uint64_t version = 0;  // rises with every change of this view
};

// Events ------------------------------------------------------------------------------------------
// A ticket is the caller's name for a request; it comes back in exactly one Answer.

struct SubmitAsked {
  uint64_t ticket = 0;
  Submission submission;
};
struct CancelAsked {
  uint64_t ticket = 0;
  std::string id;  // or a unique prefix
  std::string by;  // who, for people; may be empty
};
// The job and all that it left is to be forgotten. Answered, with the job as it was, when the
// journal has forgotten it; failed_precondition of one that has not ended.
struct RemoveAsked {
  uint64_t ticket = 0;
  std::string id;  // or a unique prefix
};
// The size of the files that an ended job left on disk, for Retention.
struct JobWeighed {
  std::string job;
  uint64_t bytes = 0;
};
// A runner that goes on though the master has started again.
struct HeldRunner {
  std::string job;
  uint64_t assembly = 0;
  uint32_t task = 0;
  auto operator<=>(const HeldRunner&) const = default;
};
// Of membership.h.
struct WorkerJoined {
  WorkerRef worker;
  std::vector<HeldRunner> runners = {};  // each may still come: RunnerStarted
  std::vector<std::string> datasets = {};
};
struct WorkerLost {
  WorkerRef worker;
  std::string reason;                    // "no heartbeat for 2.5 s"
  std::chrono::milliseconds silent{-1};  // since it was last heard of; -1: not known
};
struct WorkerStuck {
  WorkerRef worker;
  std::string reason;
  std::chrono::milliseconds still{-1};  // since it last made progress
};
// It has not been heard of for a while, nor lost yet; or it is heard of again. Or a runner on it.
struct WorkerSilent {
  WorkerRef worker;
  bool silent = true;
};
struct WorkerDraining {
  WorkerRef worker;
  bool draining = true;
};
// A runner is named by its job, the job's assembly and its worker. It has registered itself.
struct RunnerStarted {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
};
// Its process is gone, or could not be started. Of one that is kept this may be said with the
// assembly before.
struct RunnerExited {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
  RunnerEnd end;
};
// The last step is done and what the job leaves is on disk.
struct JobFinished {
  std::string job;
  uint64_t assembly = 0;
  JobResult result;  // empty for a session
};
// The run of the job has failed. unavailable and deadline_exceeded are worth another try; other
// errors would come again.
struct JobBroke {
  std::string job;
  uint64_t assembly = 0;
  Status cause;
};
// What YieldRun has asked for is done: all of its runners stand after the same step.
struct RunYielded {
  std::string job;
  uint64_t assembly = 0;
  uint64_t step = 0;   // steps done
  bool saved = false;  // from which the next assembly may go on without any of its runners
};
// All of the job's run stands still until something outside changes: "waits for room: ..."; "" when
// it goes on.
struct RunWaits {
  std::string job;
  uint64_t assembly = 0;
  std::string for_what;
};
struct ProgressMade {
  std::string job;
  uint64_t assembly = 0;
  ProgressReport report;
};
// A runner says that its link to that on another worker failed by itself, or could not be opened.
// It comes before what the run says, and only tells what to make of that.
struct LinkFailed {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
  std::string peer;  // that worker's name
  LinkFault fault = LinkFault::lost;
  std::string how;
};
// A runner says that files on its worker, which it was to read, do not answer. It comes before what
// the run says.
struct InputStarved {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
  std::string how;
  std::chrono::milliseconds waited{-1};
};
// A fault of the job's chaos is due. Answered when the journal says that it has come, with
// failed_precondition if it said so before.
struct FaultAsked {
  uint64_t ticket = 0;
  std::string job;
  uint64_t assembly = 0;
  uint32_t index = 0;
  std::string fault;
};
// What became of a WriteJournal.
struct JournalWritten {
  uint64_t write = 0;
  Status status;
};
// Time has passed. A few times a second.
struct Tick {};

using JobEvent =
    std::variant<SubmitAsked, CancelAsked, RemoveAsked, JobWeighed, WorkerJoined, WorkerLost,
                 WorkerStuck, WorkerSilent, WorkerDraining, RunnerStarted, RunnerExited,
                 JobFinished, JobBroke, RunYielded, RunWaits, ProgressMade, LinkFailed,
                 InputStarved, FaultAsked, JournalWritten, Tick>;

// Actions -----------------------------------------------------------------------------------------
// To be done in this order. Each may be done again after a crash: nothing counts on once.

// Append the record to the journal, on disk, in the order of `write`, and answer JournalWritten.
struct WriteJournal {
  uint64_t write = 0;
  JournalRecord record;
};
// Have a runner on each worker; its place here is its task. One that is kept is there, from an
// earlier assembly: it goes on in this one, with what it has in memory. Answered by RunnerStarted
// or RunnerExited of each, of this assembly.
struct StartRunners {
  std::string job;
  uint64_t assembly = 0;
  std::vector<WorkerRef> workers;
  std::vector<bool> kept;  // of each; may be empty: none is
};
// All runners are there: prepare the job's run on them and let it go, from the last checkpoint if
// there is one. Answered by JobFinished or JobBroke.
struct RunJob {
  std::string job;
  uint64_t assembly = 0;
  std::vector<WorkerRef> workers;
  std::vector<uint32_t> fired = {};  // of its chaos, what has come
  std::chrono::milliseconds ran{0};  // since it first ran
};
// Have what RunJob let go come to its end between two steps, soon: the next assembly goes on from
// what its runners then have in memory, or, if it is to be saved, from a checkpoint of that step.
// Answered by RunYielded, or by JobFinished or JobBroke if that is what it comes to.
struct YieldRun {
  std::string job;
  uint64_t assembly = 0;
  bool save = false;
  std::string reason;
};
// Stop driving what RunJob let go: for each RunJob there comes one, before the runners are stopped,
// or go on in the next assembly.
struct EndRun {
  std::string job;
  uint64_t assembly = 0;
  std::string reason;
};
// Stop the job's runners of that assembly on these workers; one that was to go on in it, and has
// not yet heard of it, is meant, too. Answered by RunnerExited of each. It may be about a stray
// runner of a job that goes on.
struct StopRunners {
  std::string job;
  uint64_t assembly = 0;
  std::vector<WorkerRef> workers;
  std::chrono::milliseconds grace{0};  // then they are killed
  std::string reason;
};
// A worker does not do what it is told to: its connection is to be closed. WorkerLost follows.
struct ExpelWorker {
  WorkerRef worker;
  std::string reason;
};
// The reply to a request.
struct Answer {
  uint64_t ticket = 0;
  Result<JobView> view;
};
// The journal has forgotten the job: its folder may go.
struct RemoveJob {
  std::string id;
};

using JobAction = std::variant<WriteJournal, StartRunners, RunJob, YieldRun, EndRun, StopRunners,
                               ExpelWorker, Answer, RemoveJob>;
using JobActions = std::vector<JobAction>;

}  // namespace leat
