// The queue of a table of jobs: it gives workers to the jobs that wait, and takes workers from jobs
// that may give them. The decisions are in queue_plan.h.
//
// * The order is by priority, then by fair share between users, then by submission.
// * The first job that could use the workers of the cluster, but lacks free ones, is the head. A
//   later job starts before it only if that does not delay it.
// * While the head lacks workers, elastic jobs of no higher priority give back those beyond their
//   least, and jobs of a lower priority that are `preemptible` make way: they save a checkpoint,
//   leave all workers and are QUEUED again. Both only if the head can start then. A job does not
//   start before the one for which it made way.
// * An elastic job takes workers beyond its least only if no other job waits for them.
// * A job that would pass the quota of its user's workers waits, and holds up no other.
//
// Threads: as the table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/jobs/cluster_job.h"
#include "daemon/jobs/job_index.h"
#include "daemon/jobs/queue_plan.h"
#include "daemon/jobs/table_context.h"

namespace leat {

class JobQueue {
 public:
  // All of them outlive this object. `unfinished`: the numbers of the jobs that have not ended.
  JobQueue(TableContext& context, JobIndex& jobs, const std::set<uint64_t>& unfinished)
      : context_(context), jobs_(jobs), unfinished_(unfinished) {}

  // The master has restarted, and the journal had this job.
  void restore(const StoredJob& job);
  // Gives workers to the jobs that wait, in order.
  void schedule();
  // Gives workers that no job waits for to jobs that have fewer than they may have.
  void grow();

 private:
  // Jobs that wait, in their order; notes their positions.
  std::vector<uint64_t> order();
  bool can_start(ClusterJob& job) const;
  // The workers that a job holds, or that are promised to it.
  size_t holds(ClusterJob& job) const;
  // The workers that the user of the job may hold beside those that the user's other jobs hold.
  size_t quota_of(ClusterJob& job) const;
  // Sums the workers that each user's jobs hold, once for all jobs that a call looks at.
  void count_held();
  // Corrects the sum of a job's user: the job held `before`.
  void held_before(ClusterJob& job, size_t before);
  // Whether the quota of its user's workers lets the job begin; notes why not.
  bool is_within_quota(ClusterJob& job);
  // The workers beyond its least that an elastic job may take: those that no other job waits for.
  size_t extra_for(ClusterJob& job, const std::vector<uint64_t>& waiting) const;
  // The job has to wait: it is the head from now on.
  void become_head(ClusterJob& job);
  // Notes which workers the head could use, and until when jobs have those of them that it cannot
  // have now.
  void look_at_workers(ClusterJob& head);
  // Starts a job before the head, if that does not delay the head.
  void backfill(ClusterJob& job);
  // As ClusterJob::start_assembly().
  void start(ClusterJob& job, size_t extra, const std::vector<std::string>& avoid);
  void took_turn(const std::string& user);
  // Asks other jobs for workers that the head lacks.
  void make_room(ClusterJob& head);
  // True if the job, which leases that worker, is about to leave it.
  bool is_coming(ClusterJob& job, const std::string& worker) const;
  // The workers that the head gets if the job leaves them.
  std::vector<std::string> workers_for_head(ClusterJob& job) const;
  void note_holders();
  // In milliseconds of Unix time.
  int64_t wall_of(Clock::Steady time) const;

  TableContext& context_;
  JobIndex& jobs_;
  const std::set<uint64_t>& unfinished_;
  // Of the head: the workers that it could use, in order; and of these the ones without room for
  // it, with the time by which jobs have left them, if that is known.
  std::vector<std::string> fit_;
  std::map<std::string, std::optional<Clock::Steady>, std::less<>> busy_;
  size_t coming_ = 0;  // of busy_, that jobs are about to leave
  std::optional<Reservation> reserved_;
  std::map<std::string, size_t> held_;  // workers by user, of the present call
  // When a job of the user began last, in milliseconds of Unix time. Jobs that the journal has
  // forgotten count until the master restarts.
  std::map<std::string, int64_t> turns_;
  // The job for which a job made way last, both by number. It does not start before that one.
  // Without those of jobs that have ended.
  std::map<uint64_t, uint64_t> made_way_;
};

}  // namespace leat
