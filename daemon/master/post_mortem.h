// The post-mortem of a failed job: files in its folder for the one who looks into it.
//
//   <folder>/<id>/post-mortem/job.json      the job, with each cause
//                             job.yaml      its job file; overrides are comments at its end
//                             steps.jsonl   the last steps of each device, as the master heard them
//                             plan.txt      the instructions and the memory of each device
//                             nodes.json    the workers, with their versions and devices
//                             master.txt    the version and the settings of the master
//                 log.txt, metrics.jsonl    beside it: see job_log.h and metrics_log.h
#pragma once

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
  // Keeps how far the devices of the job are, at the end of a run that ended badly. It replaces
  // what is known of earlier runs, unless no step was begun.
  void note(const std::string& job, const std::vector<LastSteps>& steps);
  // The job has ended without a failure, or is removed.
  void forget(const std::string& job);
  // Writes the post-mortem below the job's folder, and forgets what was noted. The first error of
  // the disk; the other files are written all the same.
  Status write(const FailedJob& failed, Files& files, const std::string& folder);

 private:
  // The texts of the files.
  struct Noted {
    std::string steps, plan;
  };
  std::mutex mutex_;
  std::map<std::string, Noted> noted_;  // by job
};

}  // namespace leat
