#include "daemon/hosts/host_group.h"

#include <algorithm>
#include <unordered_map>

#include "daemon/hosts/session_job.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The parts of a plan are alike on all hosts, so that each kind of device has the least memory that
// one of them has.
void share_least_memory(std::vector<PlanDevice>& devices) {
  std::map<std::string, uint64_t> least;
  for (const PlanDevice& device : devices) {
    const auto [it, first] = least.emplace(device.kind, device.memory_bytes);
    it->second = std::min(it->second, device.memory_bytes);
  }
  for (PlanDevice& device : devices) device.memory_bytes = least.at(device.kind);
}

}  // namespace

HostGroup::HostGroup(std::vector<std::shared_ptr<HostHandle>> hosts) : owned_(std::move(hosts)) {
  for (const auto& host : owned_) hosts_.push_back(host.get());
}

Result<std::shared_ptr<const Plan>> HostGroup::compile(JobGraph graph, const PlanOptions& options) {
  if (options.workers < 1 || static_cast<size_t>(options.workers) > hosts_.size()) {
    return invalid_argument(
        cat("workers: expected 1 to ", hosts_.size(), ", received ", options.workers));
  }
  CompileRequest request{options, graph.borders(), {}};
  for (int w = 0; w < options.workers; ++w) {
    for (PlanDevice& device : hosts_[static_cast<size_t>(w)]->devices())
      request.devices.push_back(std::move(device));
  }
  share_least_memory(request.devices);
  LEAT_ASSIGN_OR_RETURN(Plan plan, leat::compile(std::move(graph.graph), request));
  return std::make_shared<const Plan>(std::move(plan));
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
  // The names of devices are unique within a job.
  std::unordered_map<std::string, HostHandle*> host_of;
  for (HostHandle* host : hosts_) {
    for (const PlanDevice& device : host->devices()) host_of.emplace(device.name, host);
  }
  for (uint32_t p = 0; p < plan->partitions.size(); ++p) {
    const std::string& device = plan->partitions[p].device;
    const auto host = host_of.find(device);
    if (host == host_of.end()) return unavailable(cat("device ", device, ": no worker has it"));
    LEAT_ASSIGN_OR_RETURN(auto prepared, host->second->prepare(plan, p, job, number));
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
