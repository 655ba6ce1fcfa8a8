#include "daemon/master/running_jobs.h"

#include <algorithm>

#include "daemon/master/job_thread.h"

namespace leat {

RunningJobs::~RunningJobs() = default;

void RunningJobs::run(RunJob action) {
  const std::lock_guard lock(mutex_);
  reap();
  // The new thread gets the last one of its job, and waits for it before it does anything.
  auto& newest = newest_[action.job];
  newest = std::make_shared<JobThread>(parts_, std::move(action), newest);
  runs_.push_back(newest);
}

void RunningJobs::end(const EndRun& action) {
  const std::lock_guard lock(mutex_);
  for (const auto& run : runs_) {
    if (run->action().job == action.job && run->action().assembly == action.assembly) run->end();
  }
  reap();
}

void RunningJobs::yield(const YieldRun& action) {
  const std::lock_guard lock(mutex_);
  for (const auto& run : runs_) {
    if (run->action().job == action.job && run->action().assembly == action.assembly)
      run->yield(action.save);
  }
}

bool RunningJobs::save(const std::string& job) {
  const std::lock_guard lock(mutex_);
  const auto newest = newest_.find(job);
  return newest != newest_.end() && newest->second->save();
}

std::optional<DiskWait> RunningJobs::disk_wait(const std::string& job) const {
  const std::lock_guard lock(mutex_);
  std::optional<DiskWait> longest;
  for (const auto& run : runs_) {
    if (run->action().job != job || run->done()) continue;
    auto wait = run->disk_wait();
    if (wait && (!longest || wait->seconds > longest->seconds)) longest = std::move(wait);
  }
  return longest;
}

// REQUIRES: the mutex is held. Joins threads that have nothing left to do.
void RunningJobs::reap() {
  for (auto at = runs_.begin(); at != runs_.end();) {
    const std::shared_ptr<JobThread> run = *at;
    if (!run->done()) {
      ++at;
      continue;
    }
    // The last pointer to a run joins its thread, which is done, so the wait is short.
    at = runs_.erase(at);
    const auto newest = newest_.find(run->action().job);
    // A later run of the job may have taken the place by now.
    if (newest != newest_.end() && newest->second == run) newest_.erase(newest);
  }
}

bool RunningJobs::stop(std::chrono::milliseconds within) {
  const std::lock_guard lock(mutex_);
  // All are told before the first wait, so that they end side by side.
  for (const auto& run : runs_) run->end();
  const auto until = std::chrono::steady_clock::now() + within;
  for (const auto& run : runs_) {
    if (!run->wait(until)) return false;
  }
  reap();
  return true;
}

bool RunningJobs::await_end(const std::string& job, std::chrono::milliseconds within) const {
  std::unique_lock lock(mutex_);
  std::vector<std::shared_ptr<JobThread>> runs;
  for (const auto& run : runs_) {
    if (run->action().job == job) runs.push_back(run);
  }
  // The wait is without the mutex: other jobs begin and end meanwhile. The pointers keep the runs.
  lock.unlock();
  const auto until = std::chrono::steady_clock::now() + within;
  return std::all_of(runs.begin(), runs.end(), [&](const auto& run) { return run->wait(until); });
}

std::vector<std::string> RunningJobs::running() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& run : runs_) {
    if (!run->done()) ids.push_back(run->action().job);
  }
  return ids;
}

}  // namespace leat
