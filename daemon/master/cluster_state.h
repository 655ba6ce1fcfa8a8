// The one thread, "jobs", that changes the master's table of jobs and its membership: events come
// in through a queue, and actions go out to the hands.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/task_thread.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/jobs/membership.h"
#include "daemon/master/cluster_tables.h"
#include "daemon/master/requests.h"
#include "daemon/status/status_source.h"

namespace leat {

// Performs the actions that the table of jobs decides on. Threads: the one called "jobs". Every
// call returns at once; its outcome arrives later as an event.
class ClusterHands {
 public:
  virtual ~ClusterHands() = default;
  virtual void write(WriteJournal action) = 0;
  virtual void start_runners(StartRunners action) = 0;
  virtual void stop_runners(StopRunners action) = 0;
  virtual void run_job(RunJob action) = 0;
  virtual void yield_run(YieldRun action) = 0;
  virtual void end_run(EndRun action) = 0;
  virtual void remove_job(RemoveJob action) = 0;
  // The worker is no longer a member: the hands ignore everything that it still reports.
  virtual void worker_lost(const WorkerRef& worker, const std::string& reason) = 0;
  virtual void members_changed(const std::vector<WorkerView>& workers) = 0;
  // The state of the job has changed, and the journal has the change.
  virtual void job_changed(const JobView& job) = 0;
};

struct ClusterStateOptions {
  JobTableLimits jobs;
  MembershipLimits members;
  std::chrono::milliseconds tick{100};
};

// Threads: any. The thread "jobs" answers each request exactly once, with `cancelled` if the state
// stops before it has the answer.
class ClusterState {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  // REQUIRES: `clock` and `hands` outlive this. Nothing happens before start().
  ClusterState(const ClusterStateOptions& options, std::function<uint64_t()> random,
               const Clock& clock, ClusterHands& hands);
  ~ClusterState() { stop(); }

  // Continues with the jobs and the drained workers that the journal holds, and with its
  // generation.
  void start(const std::vector<StoredJob>& jobs, std::set<std::string, std::less<>> drained,
             uint64_t generation);
  // Refuses new requests, and returns when the earlier ones are answered because the journal has
  // them, or after `most`. Not on the thread "jobs".
  void settle(std::chrono::milliseconds most);
  // Stops the thread, after which the hands are not called again. The state can still be read.
  void stop();

  void handle(JobEvent event);
  void submit(Submission submission, Done<JobView> done);
  void cancel(std::string id, std::string by, Done<JobView> done);
  // See PauseAsked.
  void pause(std::string id, bool undo, std::string by, Done<JobView> done);
  // Forgets a job that has ended. Answered when the hands were told to remove it.
  void remove(std::string id, Done<JobView> done);
  void watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
             Done<JobView> done);

  // See FaultAsked. `done` is called when the fault may happen.
  void fault_due(FaultAsked fault, std::function<void(Status)> done);

  // See Membership. The answer is the worker as it is after the call.
  void drain(std::string name, bool draining, Done<NodeView> done);
  void retire(WorkerRef worker, std::function<void(Status)> done);
  void join(WorkerInfo info, std::function<void(Status)> done);
  void heard(Heartbeat heartbeat);
  void lose(WorkerRef worker, std::string reason);
  // Runs `task` on the thread, after all earlier requests.
  void post(std::function<void()> task);

  // The tables as the last event left them. Threads: any, also after stop().
  const ClusterTables& tables() const { return tables_; }

 private:
  // All of these are called on the thread.
  void apply(JobEvent event);
  void apply(Membership::Events events);
  void perform(JobActions actions);
  void perform(WriteJournal action);
  void expel(const ExpelWorker& action);
  void written(const JournalWritten& event);
  void tick();
  // Opens a ticket for the answer, and applies the event that `event` makes for it.
  void ask(Done<JobView> done, std::function<JobEvent(uint64_t ticket)> event);

  ClusterHands& hands_;
  ClusterTables tables_;
  // Used on the thread only.
  Tickets tickets_;
  std::map<uint64_t, std::string> changes_;  // jobs, by the write of their change
  Watchers watchers_;
  TaskThread thread_;  // last: it uses the rest
};

}  // namespace leat
