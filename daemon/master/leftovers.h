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

// REQUIRES: nobody writes there.
Status remove_leftovers_of_job(Files& files, const std::string& folder);

// Threads: any.
class Leftovers {
 public:
  // `folder` of all jobs. Runners of a job that has ended may write for so long as `after`.
  Leftovers(Files& files, std::string folder, std::chrono::milliseconds after, Logger log);

  // The job has ended, now or in an earlier life of the master.
  void ended(const std::string& job, Clock::Steady when);
  // Removes what is left of those that have ended for long enough; once of each.
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
