// The thread that runs one assembly of a job: it trains, or serves a session.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daemon/master/running_jobs.h"
#include "daemon/training/trainer.h"

namespace leat {

class SessionHost;

// Threads: any.
class JobThread {
 public:
  // Starts the thread. `before` is the run of the job's last assembly, which must end first; it may
  // be null.
  JobThread(const RunningJobsParts& parts, RunJob action, std::shared_ptr<JobThread> before);
  // Waits for the thread. REQUIRES: the thread is done, or end() was called.
  ~JobThread();

  const RunJob& action() const { return action_; }
  // end() and yield() are as in RunningJobs. `save`: the training writes a checkpoint first.
  void end();
  void yield(bool save);
  bool done() const;
  // True once the thread has nothing left to do.
  bool wait(std::chrono::steady_clock::time_point until);

 private:
  void live(std::shared_ptr<JobThread> before);
  void broke(const Status& cause);
  Result<JobResult> work();
  void log(std::string line);
  void tell_wait(std::string for_what);
  Result<Job> unpack_job(const Submission& submission, const std::string& folder);
  Result<TrainOptions> train_options(const std::string& folder);
  Result<JobResult> train(const Submission& submission);
  Result<std::vector<ArmedFault>> faults_to_come(const Submission& submission);
  Result<JobResult> serve_session();
  Status told_to_end() const;

  const RunningJobsParts& parts_;
  const RunJob action_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> ended_{false};
  std::atomic<TrainYield> yields_{TrainYield::no};
  bool done_ = false;
  bool told_ = false;                     // the end was reported; used by the thread only
  std::shared_ptr<SessionHost> session_;  // the session that the thread serves
  std::thread thread_;
};

}  // namespace leat
