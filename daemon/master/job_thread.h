// The thread that runs one assembly of a job: it trains, or serves a session.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/base/timed_files.h"
#include "daemon/master/running_jobs.h"
#include "daemon/training/trainer.h"

namespace leat {

class RunCopier;
class SessionHost;

// The end of the run is reported once through RunningJobsParts::tell: JobFinished with the weights'
// hash, JobBroke with the cause, or RunYielded if the training came to a fence and the job goes on
// in another assembly. The report comes before the runners are released, which takes a while.
//
// Threads: any.
class JobThread {
 public:
  // Starts the thread. `before` is the run of the job's last assembly, which must end first; it may
  // be null. The thread waits for it at most 30 s, and then breaks the run with deadline_exceeded:
  // two runs never write into the job's folder at once. REQUIRES: `parts` outlives the thread.
  JobThread(const RunningJobsParts& parts, RunJob action, std::shared_ptr<JobThread> before);
  // Ends the run and waits for the thread.
  ~JobThread();

  const RunJob& action() const { return action_; }
  // end() and yield() are as in RunningJobs. `save`: the training writes a checkpoint first.
  void end();
  void yield(bool save);
  // Asks the training for a checkpoint; false if none runs.
  bool save();
  bool done() const;
  // The run's wait for the master's disk. The training does not wait for copies.
  std::optional<DiskWait> disk_wait() const { return files_.wait(); }
  // True once the thread has nothing left to do.
  bool wait(std::chrono::steady_clock::time_point until);

 private:
  // The life of the thread: waits for `before`, works, and reports the end.
  void live(std::shared_ptr<JobThread> before);
  // Reports a failure, unless an end was reported already.
  void broke(const Status& cause);
  // Reads the submission from the journal and trains, or serves the session.
  Result<JobResult> work();
  // Adds a line to the job's log.
  void log(std::string line);
  // Tells the table of jobs what the run waits for; "" when it goes on.
  void tell_wait(std::string for_what);
  // Unpacks the submission below `folder`, and reads its job file. Waits while the disk is full;
  // the job's log and its state say so.
  Result<Job> unpack_job(const Submission& submission, const std::string& folder);
  // The options of the trainer: where to resume, and whether runners may still hold the variables.
  // `cpu`: the model of the workers' processors, as RunningJobsParts::cpu_of() tells it.
  Result<TrainOptions> train_options(const std::string& folder, const std::string& cpu);
  Result<JobResult> train(const Submission& submission);
  // Evaluates the checkpoints of another job: Job::evaluates.
  Result<JobResult> evaluate(const Job& job, const std::string& folder);
  // Tells the table that the job goes on in another assembly.
  void tell_yielded(int64_t step, bool saved);
  // Drains a worker that computes wrong bits, and logs it. Blocks for 10 s at most.
  void drain(const std::string& worker);
  // Copies the job's checkpoints elsewhere, if the master is to do so; else null.
  Result<std::unique_ptr<RunCopier>> start_copier(const Job& job, const std::string& folder);
  // Has it copy the checkpoint of that step, and logs its warnings. `copier`: may be null.
  void offer_to(RunCopier* copier, int64_t step);
  void log_warnings(RunCopier& copier);
  // Waits until the copy has all that the job has left, and logs what it lacks. `copier`: may be
  // null.
  void finish_copy(RunCopier* copier);
  // The faults of the job's chaos schedule that have not happened yet.
  Result<std::vector<ArmedFault>> faults_to_come(const Submission& submission);
  // failed_precondition in a second assembly, unless it is a lasting session: the variables of
  // others were in their runners alone.
  Result<JobResult> serve_session(const Submission& submission);
  // The error of a run that end() has ended.
  Status told_to_end() const;

  const RunningJobsParts& parts_;
  const RunJob action_;
  TimedFiles files_;  // what the training or the evaluation writes, without copies
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> ended_{false};  // end() was called
  std::atomic<TrainYield> yields_{TrainYield::no};
  std::atomic<bool> trains_{false};  // the trainer runs
  std::atomic<uint64_t> asked_{0};   // checkpoints that save() asked for
  bool done_ = false;
  std::string wrong_worker_;              // the last that drain() was called for; likewise
  bool told_ = false;                     // the end was reported; used by the thread only
  std::shared_ptr<SessionHost> session_;  // the session that the thread serves
  std::thread thread_;
};

}  // namespace leat
