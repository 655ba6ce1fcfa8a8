#include "daemon/hosts/host_group.h"

#include <algorithm>

#include "daemon/hosts/session_job.h"
#include "devices/base/text.h"

namespace leat {

HostGroup::HostGroup(std::vector<std::shared_ptr<HostHandle>> hosts) : owned_(std::move(hosts)) {
  for (const auto& host : owned_) hosts_.push_back(host.get());
}

Result<std::shared_ptr<const Plan>> HostGroup::compile(JobGraph graph, const PlanOptions& options) {
  if (options.workers < 1 || static_cast<size_t>(options.workers) > hosts_.size()) {
    return invalid_argument(
        cat("workers: expected 1 to ", hosts_.size(), ", received ", options.workers));
  }
  CompileRequest request{options, graph.borders(), {}, hosts_[0]->memory_bytes()};
  for (int w = 0; w < options.workers; ++w) {
    const HostHandle& host = *hosts_[static_cast<size_t>(w)];
    request.devices.push_back(host.device_name());
    request.device_memory_bytes = std::min(request.device_memory_bytes, host.memory_bytes());
  }
  LEAT_ASSIGN_OR_RETURN(Plan plan, leat::compile(std::move(graph.graph), request));
  return std::make_shared<const Plan>(std::move(plan));
}

// Returns the host with this device, or null. The names of devices are unique within a job.
HostHandle* HostGroup::host_of(const std::string& device) const {
  const auto it = std::find_if(hosts_.begin(), hosts_.end(),
                               [&](HostHandle* host) { return host->device_name() == device; });
  return it == hosts_.end() ? nullptr : *it;
}

Result<std::unique_ptr<PlanRun>> HostGroup::run(std::shared_ptr<const Plan> plan,
                                                const std::string& job, const RunOptions& options) {
  // One run starts at a time, because a handle takes one call at a time.
  std::lock_guard registering(registering_);
  std::vector<std::unique_ptr<PartitionRun>> partitions;
  const Status prepared = prepare(plan, job, partitions);
  // Also after a failure, because the PlanRun ends the partitions that were prepared.
  auto run = std::make_unique<PlanRun>(std::move(plan), options.first_step, std::move(partitions));
  LEAT_RETURN_IF_ERROR(prepared);
  LEAT_RETURN_IF_ERROR(run->connect(options));
  return run;
}

// Gives each host its partition, without waiting for any of them.
Status HostGroup::prepare(const std::shared_ptr<const Plan>& plan, const std::string& job,
                          std::vector<std::unique_ptr<PartitionRun>>& partitions) {
  // All hosts know the run by this number.
  const uint64_t number = ++runs_;
  for (uint32_t p = 0; p < plan->partitions.size(); ++p) {
    const std::string& device = plan->partitions[p].device;
    HostHandle* host = host_of(device);
    if (!host) return unavailable(cat("device ", device, ": no worker has it"));
    LEAT_ASSIGN_OR_RETURN(auto prepared, host->prepare(plan, p, job, number));
    partitions.push_back(std::move(prepared));
  }
  return {};
}

std::shared_ptr<SessionJob> HostGroup::session_job(const std::string& job) {
  std::lock_guard lock(mutex_);
  auto& found = session_jobs_[job];
  if (!found) found = std::make_shared<SessionJob>();
  return found;
}

}  // namespace leat
