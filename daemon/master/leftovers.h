// Leftovers of a crash in the folder of a job: checkpoints that were being written, and temporary
// files. They are removed once the job has ended and nothing writes there any more.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "devices/base/clock.h"
#include "devices/base/files.h"
#include "devices/base/log.h"

namespace leat {

// Removes the leftovers of one job. REQUIRES: no process writes to the folder.
Status remove_leftovers_of_job(Files& files, const std::string& folder);

// Threads: any.
class Leftovers {
 public:
  // `folder` holds the folders of all jobs. The runners of a job may still write for `after` once
  // the job has ended.
  Leftovers(Files& files, std::string folder, std::chrono::milliseconds after, Logger log);

  // The job has ended, now or in an earlier life of the master.
  void ended(const std::string& job, Clock::Steady when);
  // Removes the leftovers of the jobs that ended at least `after` before `now`; once for each job.
  void sweep(Clock::Steady now);

 private:
  Files& files_;
  const std::string folder_;
  const std::chrono::milliseconds after_;
  const Logger log_;
  std::mutex mutex_;
  std::map<std::string, Clock::Steady> due_;  // by job
};

}  // namespace leat
