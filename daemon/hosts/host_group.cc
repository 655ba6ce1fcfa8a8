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
  for (int w = 0; w < options.workers; ++w)
    request.devices.push_back(hosts_[static_cast<size_t>(w)]->device_name());
  LEAT_ASSIGN_OR_RETURN(Plan plan, leat::compile(std::move(graph.graph), request));
  return std::make_shared<const Plan>(std::move(plan));
}

HostHandle* HostGroup::host_of(const std::string& device) const {
  const auto it = std::find_if(hosts_.begin(), hosts_.end(),
                               [&](HostHandle* host) { return host->device_name() == device; });
  return it == hosts_.end() ? nullptr : *it;
}

Result<std::unique_ptr<PlanRun>> HostGroup::run(std::shared_ptr<const Plan> plan,
                                                const std::string& job, const RunOptions& options) {
  std::lock_guard registering(registering_);
  std::unique_ptr<PlanRun> run(new PlanRun());
  run->plan_ = plan;
  run->first_step_ = options.first_step;
  LEAT_RETURN_IF_ERROR(prepare(*run, job));
  std::vector<Endpoint> endpoints;
  for (auto& part : run->runs_) endpoints.push_back(part->endpoint());
  for (auto& part : run->runs_) part->connect(endpoints, options);
  for (auto& part : run->runs_) LEAT_RETURN_IF_ERROR(part->connected());
  for (const PlanBorder& fetch : plan->fetches) run->fetching_.push_back(fetch.partition);
  std::sort(run->fetching_.begin(), run->fetching_.end());
  run->fetching_.erase(std::unique(run->fetching_.begin(), run->fetching_.end()),
                       run->fetching_.end());
  for (uint32_t p = 0; p < run->runs_.size() && plan->fetches.empty(); ++p)
    run->fetching_.push_back(p);
  return run;
}

// Gives each host its partition: all of them at once.
Status HostGroup::prepare(PlanRun& run, const std::string& job) {
  const uint64_t number = ++runs_;
  for (uint32_t p = 0; p < run.plan_->partitions.size(); ++p) {
    const std::string& device = run.plan_->partitions[p].device;
    HostHandle* host = host_of(device);
    if (!host) return unavailable(cat("device ", device, ": no worker has it"));
    LEAT_ASSIGN_OR_RETURN(auto prepared, host->prepare(run.plan_, p, job, number));
    run.runs_.push_back(std::move(prepared));
  }
  for (auto& part : run.runs_) LEAT_RETURN_IF_ERROR(part->prepared());
  return {};
}

std::shared_ptr<SessionJob> HostGroup::session_job(const std::string& job) {
  std::lock_guard lock(mutex_);
  auto& found = session_jobs_[job];
  if (!found) found = std::make_shared<SessionJob>();
  return found;
}

}  // namespace leat
