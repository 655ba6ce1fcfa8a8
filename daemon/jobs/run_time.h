// The time that a job has had workers, which its max_run_time limits: the time RUNNING, and that
// RECOVERING with runners. The time in the queue, while its runners start, and while it is paused
// does not count. When the time is over, the run is asked to save a checkpoint at a fence; then the
// job has FAILED. A run that is to be PAUSED and does not come to a fence is stopped after the time
// that others have for their last checkpoint.
//
// A master that starts again takes the time RUNNING before from the journal, by the dates of the
// job's changes. So the time without a master counts, too, since the runners of the job went on.
// The time RECOVERING does not: the journal does not have how much of it the job spent in the
// queue.
//
// Threads: one.
#pragma once

#include <optional>
#include <string>

#include "daemon/jobs/job_runners.h"
#include "daemon/jobs/table_context.h"

namespace leat {

// The job leaves all of its workers, and goes into that state.
struct JobLeave {
  JobState state = JobState::queued;
  std::string reason;
};

class RunTime {
 public:
  // All of them outlive this object.
  RunTime(const TableContext& context, const StoredJob& job, JobRunners& runners)
      : context_(context), job_(job), runners_(runners) {}

  // The master has restarted.
  void restore();
  // An assembly begins: the time until now does not count.
  void renew();
  // Counts the time since the last call. If it is over, asks the run to stop at a fence, or returns
  // how the job ends if there is no run, or if the run does not stop. REQUIRES: called at every
  // tick while the job has workers.
  std::optional<JobLeave> tick();

  // The moment by which the job has left the workers that it has, or would get now; nothing if it
  // has no max_run_time.
  std::optional<Clock::Steady> ends_by() const;

 private:
  Clock::Steady::duration most() const { return job_.terms.max_run_time; }

  const TableContext& context_;
  const StoredJob& job_;
  JobRunners& runners_;
  Clock::Steady::duration spent_{};
  std::optional<Clock::Steady> counted_;  // the time until then is in spent_
  Clock::Steady starts_by_{};             // in STARTING: when the runners are there at the latest
};

}  // namespace leat
