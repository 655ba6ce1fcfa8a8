// The curves of jobs, for the status page: read from the logs of metrics in the jobs' folders by a
// thread of its own, so that a slow disk delays no answer.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/base/task_thread.h"
#include "daemon/curves/growing_curves.h"
#include "daemon/master/job_folders.h"
#include "devices/base/files.h"

namespace leat {

// Threads: any. No call blocks.
class JobCurves {
 public:
  // The curves of so many jobs are kept; those last asked for the longest ago go first.
  static constexpr size_t kMostJobs = 64;

  // Both outlive it.
  JobCurves(Files& files, const JobFolders& folders);
  ~JobCurves() { thread_.stop(); }

  // The curves as they were read last, and has them read on. `whole` is false until the log has
  // been read to its end once: right after the first call, and for a while if the log is long.
  CurvesView of(const std::string& job);

 private:
  struct Entry;
  // Reads what is new, at most a few MiB, and goes on with the rest in a later task.
  void read_on(const std::string& job, const std::shared_ptr<Entry>& entry);

  Files& files_;
  const JobFolders& folders_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::list<std::string> asked_;  // the last one first
  TaskThread thread_;             // last, because its tasks use the other members
};

}  // namespace leat
