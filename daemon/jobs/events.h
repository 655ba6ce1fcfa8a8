// The events that happen to jobs, and the actions that follow: the whole language between the table
// of jobs (job_table.h) and the daemon, or the simulator, that drives it.
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

// One moment on two clocks: the date for people, the steady clock for deadlines.
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
  JobHistory history;  // in a list of jobs the count alone
  JobTimes times;      // until the last event or tick of the table
  // As QueueTerms has them.
  int64_t priority = 0;
  std::string user;
  int64_t max_run_time_ms = -1;  // -1: it has no limit
  bool preemptible = false;
  uint32_t cores = 0;
  uint64_t memory_bytes = 0;
  uint32_t position = 0;  // in the queue, from 1; 0: it does not wait there
  uint64_t version = 0;   // rises with every change of this view
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
  std::string by;  // the user, for people; may be empty
};
// Asks to pause the job, or to resume it. Answered when the journal has that. A job that is so
// already is no error; failed_precondition if it has ended, or is a session.
struct PauseAsked {
  uint64_t ticket = 0;
  std::string id;  // or a unique prefix
  bool undo = false;
  std::string by;  // as in CancelAsked
};
// Asks to forget the job and all its files. Answered, with the job's last view, when the journal
// has forgotten it; failed_precondition if the job has not ended.
struct RemoveAsked {
  uint64_t ticket = 0;
  std::string id;  // or a unique prefix
};
// The size of the files that an ended job left on disk, for Retention.
struct JobWeighed {
  std::string job;
  uint64_t bytes = 0;
};
// A runner that outlived a restart of the master.
struct HeldRunner {
  std::string job;
  uint64_t assembly = 0;
  uint32_t task = 0;
  auto operator<=>(const HeldRunner&) const = default;
};
// Events of the membership (membership.h).
struct WorkerJoined {
  WorkerRef worker;
  std::vector<HeldRunner> runners = {};  // each may register: RunnerStarted
  std::vector<std::string> datasets = {};
  uint32_t gpus = 0;
  uint32_t cores = 0;   // for jobs that share it; 0: it is leased as a whole only
  uint64_t memory = 0;  // bytes, likewise
};
struct WorkerLost {
  WorkerRef worker;
  std::string reason;                    // "no heartbeat for 2.5 s"
  std::chrono::milliseconds silent{-1};  // since its last message; -1: not known
};
struct WorkerStuck {
  WorkerRef worker;
  std::string reason;
  std::chrono::milliseconds still{-1};  // since it last made progress
};
// The worker, or a runner on it, has been silent for a short time but is not lost; or it is heard
// again.
struct WorkerSilent {
  WorkerRef worker;
  bool silent = true;
};
struct WorkerDraining {
  WorkerRef worker;
  bool draining = true;
};
// The runner of that job, assembly and worker has registered.
struct RunnerStarted {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
};
// The runner's process is gone, or could not be started. For a kept runner the event may name the
// assembly before.
struct RunnerExited {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
  RunnerEnd end;
};
// The last step is done, and the job's files are on disk.
struct JobFinished {
  std::string job;
  uint64_t assembly = 0;
  JobResult result;  // empty for a session
};
// The run of the job has failed. After unavailable and deadline_exceeded another attempt may
// succeed; other errors would come again.
struct JobBroke {
  std::string job;
  uint64_t assembly = 0;
  Status cause;
  std::string culprit = {};  // the worker that an audit found to be wrong; "" if it found none
};
// The run has stopped as YieldRun asked: all of its runners have done the same steps.
struct RunYielded {
  std::string job;
  uint64_t assembly = 0;
  uint64_t step = 0;   // steps done
  bool saved = false;  // in a checkpoint: the next assembly needs none of these runners
};
// The job's run stands still until something outside changes: "waits for room: ..."; "" when the
// run continues.
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
// A runner reports that its link to the runner on another worker failed by itself, or could not be
// opened. The event comes before the error of the run, and explains it.
struct LinkFailed {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
  std::string peer;  // the name of the other worker
  LinkFault fault = LinkFault::lost;
  std::string how;
};
// A runner reports that files on its worker, which it should read, do not answer. The event comes
// before the error of the run.
struct InputStarved {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
  std::string how;
  std::chrono::milliseconds waited{-1};
};
// A runner reports that its GPU has failed, so that its process is about to end. The event comes
// before that of the end, which it explains.
struct DeviceFailed {
  std::string job;
  uint64_t assembly = 0;
  WorkerRef worker;
  std::string how;  // "gpu:0: computing: cudaEventRecord: cudaErrorUnknown: ..."
};
// A fault of the job's chaos is due. Answered when the journal has the fault; failed_precondition
// if it had it before.
struct FaultAsked {
  uint64_t ticket = 0;
  std::string job;
  uint64_t assembly = 0;
  uint32_t index = 0;
  std::string fault;
};
// The outcome of a WriteJournal.
struct JournalWritten {
  uint64_t write = 0;
  Status status;
};
// Time has passed. Comes a few times a second.
struct Tick {};

using JobEvent =
    std::variant<SubmitAsked, CancelAsked, PauseAsked, RemoveAsked, JobWeighed, WorkerJoined,
                 WorkerLost, WorkerStuck, WorkerSilent, WorkerDraining, RunnerStarted, RunnerExited,
                 JobFinished, JobBroke, RunYielded, RunWaits, ProgressMade, LinkFailed,
                 InputStarved, DeviceFailed, FaultAsked, JournalWritten, Tick>;

// Actions -----------------------------------------------------------------------------------------
// The daemon performs actions in this order. After a crash it may perform one again.

// Append the record to the journal on disk, in the order of `write`. Answered by JournalWritten.
struct WriteJournal {
  uint64_t write = 0;
  JournalRecord record;
};
// Start a runner on each worker; its index here is its task. A kept runner is there already, from
// an earlier assembly: it continues in this one with its memory. Answered by RunnerStarted or
// RunnerExited for each runner, of this assembly.
struct StartRunners {
  std::string job;
  uint64_t assembly = 0;
  std::vector<WorkerRef> workers;
  std::vector<bool> kept;  // by worker; may be empty: no runner is kept
  uint32_t gpus = 0;       // that each new runner opens
  WorkerShare share = {};  // threads and memory of each new runner; the whole: as its worker's
                           // configuration has it
};
// All runners are there: prepare the job's run on them and start it, from the last checkpoint if
// there is one. Answered by JobFinished or JobBroke.
struct RunJob {
  std::string job;
  uint64_t assembly = 0;
  std::vector<WorkerRef> workers;
  std::vector<uint32_t> fired = {};  // the faults of its chaos that have happened
  std::chrono::milliseconds ran{0};  // since it first ran
};
// Stop the run that RunJob started between two steps, soon: the next assembly continues from the
// memory of its runners or, if the state is to be saved, from a checkpoint of that step. Answered
// by RunYielded, or by JobFinished or JobBroke if the run ends otherwise.
struct YieldRun {
  std::string job;
  uint64_t assembly = 0;
  bool save = false;
  std::string reason;
};
// Stop driving the run that RunJob started. Comes once for each RunJob, before its runners are
// stopped or continue in the next assembly.
struct EndRun {
  std::string job;
  uint64_t assembly = 0;
  std::string reason;
};
// Stop the job's runners of that assembly on these workers, also a kept runner that has not yet
// heard of the assembly. Answered by RunnerExited for each. The runner may be a stray one of a job
// that continues.
struct StopRunners {
  std::string job;
  uint64_t assembly = 0;
  std::vector<WorkerRef> workers;
  std::chrono::milliseconds grace{0};  // after it they are killed
  std::string reason;
};
// Close the connection of a worker that does not obey. WorkerLost follows.
struct ExpelWorker {
  WorkerRef worker;
  std::string reason;
};
// The reply to a request.
struct Answer {
  uint64_t ticket = 0;
  Result<JobView> view;
};
// The journal has forgotten the job: remove its folder.
struct RemoveJob {
  std::string id;
};

using JobAction = std::variant<WriteJournal, StartRunners, RunJob, YieldRun, EndRun, StopRunners,
                               ExpelWorker, Answer, RemoveJob>;
using JobActions = std::vector<JobAction>;

}  // namespace leat
