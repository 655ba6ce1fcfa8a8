// The jobs that run. Each has a thread, "job ID", that trains on the job's runners, or serves a
// session there (session_host.h). The job's folder holds all of its files, so that the next
// assembly, on other runners or after a restart of the master, continues from the newest checkpoint
// there:
//
//   <folder>/<id>/submitted/...                the files that were submitted with it
//                 log.txt                      see job_log.h
//                 checkpoints, weights, ...    see daemon/training/trainer.h
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/timed_files.h"
#include "daemon/checkpoint/checkpoint_key.h"
#include "daemon/checkpoint/signing_key.h"
#include "daemon/hosts/host_group.h"
#include "daemon/jobs/events.h"
#include "daemon/jobs/records.h"
#include "daemon/jobs/views.h"
#include "daemon/spec/chaos_fault.h"
#include "devices/base/clock.h"
#include "devices/base/files.h"
#include "devices/base/log.h"
#include "devices/base/status.h"
#include "ops/graph/op.h"

namespace leat {

class JobLogs;
class JobThread;
class JournalThread;
class SessionHosts;

// The parts of the master that running jobs use. All of them outlive the RunningJobs. The functions
// are called on the threads of jobs, and may block.
struct RunningJobsParts {
  Files& files;
  const Catalogue& catalogue;
  JournalThread& journal;
  JobLogs& logs;
  SessionHosts& sessions;
  const Clock& clock;
  std::string folder;  // of all jobs
  std::string copies;  // MasterConfig::checkpoint_copies
  // Signs the checkpoints of all jobs; null if the master has none.
  std::shared_ptr<const SigningKey> key;
  // The keys by which `files` encrypts the weights of jobs; none: it does not.
  std::shared_ptr<const CheckpointKeys> checkpoint_keys;
  // Makes the hosts of an assembly.
  std::function<Result<std::unique_ptr<HostGroup>>(const RunJob&)> make_hosts;
  // Returns a function that notes how far the devices of the assembly are, for a post-mortem.
  // REQUIRES: make_hosts has just made its hosts.
  std::function<std::function<void()>(const RunJob&)> noter;
  // The model of its workers' processors, which the weights depend on; "A and B" if they differ.
  std::function<std::string(const RunJob&)> cpu_of;
  // A job of the cluster; failed_precondition if the table has none of that id.
  std::function<Result<JobView>(const std::string&)> job;
  // Removes what the graph of a job has saved (leat.Save). Blocks on the disk.
  std::function<Status(const std::string& job)> forget_saved;
  // Passes an event of the job to the table of jobs.
  std::function<void(JobEvent)> tell;
  // Arms the faults of the job's chaos on its runners; and asks whether a fault of the master may
  // happen now.
  std::function<Status(const RunJob&, const std::vector<ArmedFault>&)> arm;
  std::function<void(FaultAsked, std::function<void(Status)>)> fault_due;
  // Drains a worker, as `leat drain` does; calls back when the journal and the table know it, or
  // with the reason why they do not.
  std::function<void(const std::string& worker, const std::string& by, std::function<void(Status)>)>
      drain;
  Logger log;
};

// Threads: any, one at a time.
class RunningJobs {
 public:
  explicit RunningJobs(RunningJobsParts parts) : parts_(std::move(parts)) {}
  // REQUIRES: stop() has returned true, or no job ran.
  ~RunningJobs();

  // Trains the job. Waits first until its last assembly has ended.
  void run(RunJob action);
  // Detaches the run from the job: it ends between two steps at the latest, and reports nothing.
  // The caller ends its calls to runners.
  void end(const EndRun& action);
  // Stops the job's training at a fence; it then reports RunYielded. A session is not stopped.
  void yield(const YieldRun& action);
  // Has the job write a checkpoint after its next step. False if no training of it runs.
  bool save(const std::string& job);
  // The longest wait of the job's runs for the master's disk: a new run waits for the end of the
  // one before.
  std::optional<DiskWait> disk_wait(const std::string& job) const;
  // Ends all jobs. Returns false if a thread still runs after `within`.
  bool stop(std::chrono::milliseconds within);
  // Waits until no thread of the job runs; returns false if one still does after `within`.
  bool await_end(const std::string& job, std::chrono::milliseconds within) const;
  // The ids of jobs whose threads run.
  std::vector<std::string> running() const;

 private:
  void reap();

  const RunningJobsParts parts_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<JobThread>> newest_;  // by job
  std::list<std::shared_ptr<JobThread>> runs_;                // those whose threads are not joined
};

}  // namespace leat
