// The post-mortem of a failed job: files in its folder for the one who looks into it.
//
//   <folder>/<id>/post-mortem/job.json      the job, with the first cause and all that it lost
//                             job.yaml      its job file; overrides are comments at its end
//                             steps.jsonl   the last steps of each device, as the master heard them
//                             plan.txt      what each device does in a step
//                             nodes.json    the workers, with their versions and devices
//                             master.txt    the version and the settings of the master
//                 log.txt, metrics.jsonl    beside it: see job_log.h and metrics_log.h
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/jobs/records.h"
#include "daemon/jobs/views.h"
#include "daemon/remote/last_steps.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// All that a post-mortem tells besides the steps.
struct FailedJob {
  JobView job;
  Submission submission;
  std::vector<NodeView> nodes;
  std::string settings;  // of the master: print_config()
};

// Threads: any.
class PostMortems {
 public:
  // Keeps how far the devices of the job were when a run of it ended badly. It replaces what is
  // known of earlier runs, unless no step was begun.
  void note(const std::string& job, std::vector<LastSteps> steps);
  // The job has ended without a failure.
  void forget(const std::string& job);
  // Writes the post-mortem below the job's folder, and forgets the steps. The error of the disk.
  Status write(const FailedJob& failed, Files& files, const std::string& folder);

 private:
  struct Noted {
    std::chrono::steady_clock::time_point at;
    std::vector<LastSteps> steps;
  };
  std::mutex mutex_;
  std::map<std::string, Noted> noted_;  // by job
};

}  // namespace leat
