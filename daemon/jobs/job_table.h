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
// (cluster_job.h). These rules hold:
//
// * Users only see conditions that are in the journal: a change is written first, then visible,
//   then acted on. So an acknowledged submit survives, a terminal state never changes, and a
//   restarted master knows every assembly in which a runner was started.
// * If a write fails, a submit is refused with resource_exhausted. Every other change is decided
//   again after `retry_after`. Reads are served all the time, with the written state.
// * A job leases whole workers, or a share of each, in the order of the queue (job_queue.h). A job
//   that wants more workers than exist, free or not, is passed over until they have joined. If a
//   job names a data set, only workers that have it count.
// * An elastic job begins with as many workers as are free, at least `min_workers`. It continues
//   with those that are left after a loss, and takes more when they are free and no other job waits
//   for them. For that it ends an assembly at a fence, which does not count as a restart, and no
//   step is computed twice.
// * Every wait for a runner or a worker ends at a deadline, checked at each Tick. If a runner does
//   not start in time, its job loses the assembly; if one does not stop in time, its worker is
//   expelled.
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
#include "daemon/jobs/job_queue.h"
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

  // Takes the jobs of the journal, before any event. Jobs that had runners are RECOVERING, "the
  // master restarted", which does not count as a restart of theirs. Runners that outlived the
  // master are kept if they come in time; the job gets other workers in the places of the rest.
  // Views of a higher `generation` have higher versions, so a client that watched the earlier
  // master sees every change.
  JobActions restore(const std::vector<StoredJob>& jobs, Moment now, uint64_t generation = 0);
  JobActions handle(JobEvent event, Moment now);

  // A job by its id or a prefix of no other. failed_precondition if there is none,
  // invalid_argument, with their ids, if there are several.
  Result<JobView> find(std::string_view id) const;
  // The job whose submit with this user's request id was accepted, or is being written; "" if there
  // is none.
  std::string job_of_request(std::string_view user, std::string_view request_id) const;
  // The jobs whose version is higher than `version`, in the order of their submission.
  std::vector<JobView> jobs(uint64_t version = 0) const;
  // Rises whenever any view changes.
  uint64_t version() const { return context_.version; }

  const Leases& leases() const { return context_.leases; }
  // The ids of the jobs that lease the worker, the first submitted first.
  std::vector<std::string> jobs_on(std::string_view worker) const;
  // The error of the last write; ok if it succeeded.
  const Status& journal_status() const { return context_.journal.status(); }

 private:
  void on(SubmitAsked event);
  void on(const CancelAsked& event);
  void on(const PauseAsked& event);
  void on(const RemoveAsked& event);
  void on(const JobWeighed& event);
  void on(const WorkerJoined& event);
  void on(const JournalWritten& event);
  void on(const Tick& event);
  void on(const FaultAsked& event);
  // Handles an event about a worker, for the job that leases it, if any.
  template <OfWorker Event>
  void on(const Event& event);
  // Handles an event about the runners or the run of a job.
  template <OfJob Event>
  void on(const Event& event);
  // A worker held a runner while the master was away: its job takes the runner, or the runner is
  // stopped.
  void take_up(const WorkerRef& worker, const HeldRunner& runner);

  // The work that is common to all events, done after each.
  JobActions settle();
  void set_refuses(bool refuses);
  // resource_exhausted if the user of the submission has all the jobs or sessions that one may
  // have, or could never have the workers that it asks for.
  Status check_quota(const Submission& asked) const;
  void submit_written(ClusterJob& job, const Status& status);
  void forget_written(ClusterJob& job, const Status& status);
  std::string new_id(std::string_view name);

  TableContext context_;
  const std::function<uint64_t()> random_;
  JobIndex jobs_;
  std::set<uint64_t> unfinished_;  // numbers
  JobQueue queue_;
  EndedList ended_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, std::vector<uint64_t>> submitting_;  // tickets of submits in flight, by number
  // Tickets to answer after the event that is being handled, and their jobs.
  std::vector<std::pair<uint64_t, uint64_t>> submitted_;
};

}  // namespace leat
