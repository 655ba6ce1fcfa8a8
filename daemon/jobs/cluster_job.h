// One job of a cluster: its state (job_state.h), and the decisions that lead from one state to the
// next. The table (job_table.h) hands it events and gives it workers.
//
// Events become facts at once: a runner is gone, the run has an error, a user wants to cancel the
// job. advance() derives decisions from the facts and the state. A decision is one write of the
// journal: the job proposes a new condition, and when the journal has it, the condition is visible
// and the job acts on it. One write of a job is in flight at a time; facts that come meanwhile wait
// for the next decision.
//
//   handle(event) ──► facts ──► advance() ──► WriteJournal
//                       ▲                          │
//                       └── actions ◄── written() ◄┘
//
// Its parts: the runners and the run on them (job_runners.h, assembly_run.h), the workers that it
// needs (job_demand.h), its failures (job_failures.h), its past (job_past.h), the requests of users
// (job_wishes.h) and the time that it has run (run_time.h).
//
// Threads: one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/job_failures.h"
#include "daemon/jobs/job_past.h"
#include "daemon/jobs/job_runners.h"
#include "daemon/jobs/job_wishes.h"
#include "daemon/jobs/run_time.h"
#include "daemon/jobs/table_context.h"

namespace leat {

class ClusterJob {
 public:
  // The kind of the write in flight. A job is invisible until its submit is written.
  enum class Write : uint8_t { none, submit, change, note, forget };

  // The context outlives this object.
  ClusterJob(TableContext& context, StoredJob job);
  // The master has restarted, and the journal had this job.
  void restore();

  const StoredJob& stored() const { return job_; }
  JobState state() const { return job_.condition.state; }
  Write writes() const { return write_; }
  JobRunners& runners() { return runners_; }
  JobFailures& failures() { return failures_; }
  JobView view() const;
  // Of view(): rises with every change of it.
  uint64_t version() const;

  // Takes an event about this job, its runners or a worker that it leases. Returns false for a
  // RunnerStarted of an unexpected runner, and for a FaultAsked of an assembly that is over.
  bool handle(const JobEvent& event);
  // A user asks for a change. Answered when the journal has it; at once if the job is so already.
  // REQUIRES: the job has not ended.
  void ask(JobWishes::Kind kind, const std::string& by, uint64_t ticket);
  // Checks the deadlines of the job's runners, and of the job itself.
  void tick();
  // Derives decisions from the facts, unless a write is in flight or held back.
  void advance();

  // True if the job can begin an assembly as soon as it gets workers.
  bool waits() const;
  // True while runners from before a restart may come. No other job overtakes it meanwhile.
  bool awaits_its_own() const {
    return state() == JobState::recovering && !wishes_.has(JobWishes::Kind::cancel) &&
           runners_.awaits_workers();
  }
  // Leases free workers and proposes the next assembly. REQUIRES: waits(), and as
  // JobRunners::renew, which has the arguments.
  void start_assembly(size_t extra, const std::vector<std::string>& avoid);
  // True if its run goes on, and may be asked to stop at a fence for others.
  bool may_yield() const;
  // As RunTime has it.
  std::optional<Clock::Steady> ends_by() const { return time_.ends_by(); }

  // Writes a record into the journal. REQUIRES: writes() is none.
  void write(Write what, JournalRecord record);
  // The write in flight is in the journal, or failed with that status.
  void written(const Status& status);
  // Gives the job's view a new version.
  void touch() { version_ = ++context_.version; }

 private:
  struct Listener;  // turns events into facts

  // Decisions about a job with runners, about one that is to be paused, and after a failure.
  void advance_with_runners();
  void advance_pausing();
  void advance_failed();
  JobCondition changed(JobState state, std::string reason) const;
  void propose(JobCondition next);
  // The change from `before` is in the journal: acts on the decision.
  void entered(const JobCondition& before);
  void refused(const Status& status);
  void answer(std::vector<uint64_t> tickets, const Status& status);
  std::string waiting_reason() const;

  TableContext& context_;
  StoredJob job_;  // as in the journal
  uint64_t version_ = 0;
  Write write_ = Write::none;
  JobCondition next_;  // of the change in flight
  // Facts that are not in the journal.
  bool had_runners_ = false;  // before the master restarted
  JobWishes wishes_;
  std::optional<JobResult> finished_;  // with this result
  std::optional<JobLeave> leave_;      // its run has stopped at a fence for that
  JobRunners runners_;
  JobFailures failures_;
  JobPast past_;
  RunTime time_;
};

}  // namespace leat
