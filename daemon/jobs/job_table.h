// The master's jobs: pure logic. Events come in, actions go out (events.h). The table reads no
// clock, no file and no socket, and draws random numbers only from what it is given. So a simulator
// drives it as the daemon does, and equal events give equal actions.
//
// The daemon's loop, on one thread:
//
//   JobTable table({}, random);
//   run(table.restore(journal->replay(), moment_of(clock)));
//   on anything that happens:  run(table.handle(event, moment_of(clock)));
//   run(actions):              each in order; a WriteJournal goes to the journal's thread, and its
//                              outcome comes back as the event JournalWritten.
//
// The table holds the queue, the leases and the writes of the journal. Each job decides for itself
// (cluster_job.h). What holds:
//
// * All that people see of a job's condition is in the journal: a change is first written, then
//   visible, then acted on. So an acknowledged submit survives, a terminal state never changes, and
//   no runner starts in an assembly that a restarted master would not know of.
// * If a write fails, a submit is refused with resource_exhausted. Every other change is decided
//   anew after `retry_after`. Reads are served all the time, with what was written.
// * A job leases whole workers, first come first served. A job that wants more workers than there
//   are, free or not, is passed over until they have joined; no other job is overtaken. Of a job
//   that names a data set only workers that have it count.
// * An elastic job begins with as many workers as are free, at least `min_workers`, goes on with
//   those that are left, and takes in more when they are free and no other job waits for them. A
//   fence that it ends an assembly at for this is none of its restarts, and no step is computed
//   twice.
// * Every wait for a runner or a worker has an end, by Ticks: a runner that does not start in time
//   costs its job the assembly, and one that does not stop in time costs its worker the membership.
//
// Threads: one.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/jobs/ended_jobs.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/job_index.h"
#include "daemon/jobs/table_context.h"

namespace leat {

template <typename Event>
concept OfJob = requires(Event event) {
  event.job;
};
template <typename Event>
concept OfWorker = !OfJob<Event> && requires(Event event) {
  event.worker;
};

class JobTable {
 public:
  JobTable(const JobTableLimits& limits, std::function<uint64_t()> random);

  // Takes up what the journal holds, before any event. Jobs that had runners are RECOVERING, "the
  // master restarted", which is none of their restarts. Runners that have gone on meanwhile are
  // kept if they come in time; in the place of the others the job gets workers as these join. Views
  // of a higher `generation` have higher versions, so that a client that watched the master before
  // this one sees all that is new.
  JobActions restore(const std::vector<StoredJob>& jobs, Moment now, uint64_t generation = 0);
  JobActions handle(JobEvent event, Moment now);

  // A job by its id or a prefix of no other. failed_precondition if there is none,
  // invalid_argument, with their ids, if there are several.
  Result<JobView> find(std::string_view id) const;
  // The job whose submit of this request id was accepted, or is being written; "" if there is none.
  std::string job_of_request(const std::string& request_id) const;
  // All jobs, in the order of their submission.
  std::vector<JobView> jobs() const;
  // Rises whenever any view changes.
  uint64_t version() const { return context_.version; }

  const Leases& leases() const { return context_.leases; }
  // The id of the job that leases the worker; "" if none does.
  std::string job_on(std::string_view worker) const;
  // Why the last write failed; ok after one that did not.
  const Status& journal_status() const { return context_.journal.status(); }

 private:
  void on(SubmitAsked event);
  void on(const CancelAsked& event);
  void on(const RemoveAsked& event);
  void on(const JobWeighed& event);
  void on(const WorkerJoined& event);
  void on(const JournalWritten& event);
  void on(const Tick& event);
  void on(const FaultAsked& event);
  // Of a worker: for the job that leases it, if one does.
  template <OfWorker Event>
  void on(const Event& event);
  // Of the runners or the run of a job.
  template <OfJob Event>
  void on(const Event& event);
  // A runner goes on that a worker has held while the master was away: its job takes it up, or it
  // is stopped.
  void take_up(const WorkerRef& worker, const HeldRunner& runner);

  // Gives workers to the jobs that wait, in order.
  void schedule();
  // Gives workers that no job waits for to jobs that have fewer than they may have.
  void grow();
  // What all events have in common, after each.
  JobActions settle();
  void set_refuses(bool refuses);
  void submit_written(ClusterJob& job, const Status& status);
  void forget_written(ClusterJob& job, const Status& status);
  std::string new_id(std::string_view name);

  TableContext context_;
  const std::function<uint64_t()> random_;
  JobIndex jobs_;
  std::set<uint64_t> unfinished_;  // numbers, in the order of the queue
  EndedList ended_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, std::vector<uint64_t>>
      submitting_;  // tickets, by number, of submits in the air
  // Tickets to answer after the event that is being handled, and their jobs.
  std::vector<std::pair<uint64_t, uint64_t>> submitted_;
};

}  // namespace leat
