#include "daemon/master/cluster_tables.h"

#include <utility>

namespace leat {

JobActions ClusterTables::restore(const std::vector<StoredJob>& jobs,
                                  std::set<std::string, std::less<>> drained, uint64_t generation) {
  const std::lock_guard lock(mutex_);
  // The names come first: no worker has joined yet, as drain_names() requires.
  members_.drain_names(std::move(drained));
  return table_.restore(jobs, moment_of(clock_), generation);
}

JobActions ClusterTables::handle(JobEvent event) {
  const std::lock_guard lock(mutex_);
  return table_.handle(std::move(event), moment_of(clock_));
}

std::optional<std::vector<WorkerView>> ClusterTables::changed_members() {
  const std::lock_guard lock(mutex_);
  // Most events change no member, and the list of all workers is not made for these.
  if (members_.version() == published_version_) return std::nullopt;
  published_version_ = members_.version();
  return members_.workers(moment_of(clock_));
}

uint64_t ClusterTables::jobs_version() const {
  const std::lock_guard lock(mutex_);
  return table_.version();
}

std::vector<JobView> ClusterTables::jobs(uint64_t version) const {
  const std::lock_guard lock(mutex_);
  return table_.jobs(version);
}

Result<JobView> ClusterTables::job(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  return table_.find(id);
}

std::string ClusterTables::job_of_request(std::string_view user,
                                          std::string_view request_id) const {
  const std::lock_guard lock(mutex_);
  return table_.job_of_request(user, request_id);
}

std::vector<NodeView> ClusterTables::nodes() const {
  const std::lock_guard lock(mutex_);
  // Both tables are read under one lock, so that a worker and its job are of the same moment.
  std::vector<NodeView> nodes;
  for (WorkerView& worker : members_.workers(moment_of(clock_))) {
    // A lost worker serves no job, even if the table of jobs has not heard of the loss yet.
    const bool lives = worker.state != WorkerState::lost;
    std::vector<std::string> jobs;
    if (lives) jobs = table_.jobs_on(worker.info.worker.name);
    std::string first = jobs.empty() ? "" : jobs.front();
    nodes.push_back({std::move(worker), std::move(first), std::move(jobs)});
  }
  return nodes;
}

std::optional<WorkerInfo> ClusterTables::member(const WorkerRef& worker) const {
  const std::lock_guard lock(mutex_);
  // find() goes by the name alone; another life of the worker is not the one that was asked for.
  const WorkerInfo* info = members_.find(worker.name);
  if (info == nullptr || info->worker != worker) return std::nullopt;
  return *info;
}

uint64_t ClusterTables::membership_version() const {
  const std::lock_guard lock(mutex_);
  return members_.version();
}

Status ClusterTables::journal_status() const {
  const std::lock_guard lock(mutex_);
  return table_.journal_status();
}

}  // namespace leat
