#include "daemon/lasting/kept_variables.h"

#include "ops/graph/attrs.h"
#include "ops/graph/op.h"
#include "scheduler/graph/device_name.h"

namespace leat {

Status KeptVariables::place(const Plan& plan, const HostGroup& hosts, const std::string& job) {
  std::map<std::string, std::set<std::string>> wanted;  // by task
  for (const Partition& partition : plan.partitions) {
    const std::string task = task_of(partition.device);
    for (const PlanResource& resource : partition.resources) {
      if (resource.op->full_name() != "leat.Variable") continue;
      std::string name = attr_string(resource.attrs, "name");
      if (!placed_.contains({task, name})) wanted[task].insert(std::move(name));
    }
  }
  for (const auto& [task, names] : wanted) {
    for (HostHandle* host : hosts.hosts()) {
      if (host->task() == task) LEAT_RETURN_IF_ERROR(place_on(*host, job, names));
    }
  }
  return {};
}

// A host may still hold the variables of an earlier run of the session, so that those without a
// saved value are written, too.
Status KeptVariables::place_on(HostHandle& host, const std::string& job,
                               const std::set<std::string>& names) {
  LEAT_ASSIGN_OR_RETURN(const auto held, host.read_variables(job));
  auto& saved = to_place_[host.task()];
  std::map<std::string, Tensor> values;
  for (const std::string& name : names) {
    const auto found = held.find(name);
    if (found == held.end()) continue;
    if (const auto value = saved.find(name); value != saved.end()) {
      values.emplace(name, value->second);
    } else {
      values.emplace(name, Tensor(found->second.dtype(), found->second.shape()));
    }
  }
  if (!values.empty()) LEAT_RETURN_IF_ERROR(host.write_variables(job, values, Restore::some, {}));
  // Not before: after an error the saved values are still needed.
  for (const std::string& name : names) {
    placed_.emplace(host.task(), name);
    saved.erase(name);
  }
  return {};
}

Result<std::map<std::string, std::map<std::string, Tensor>>> KeptVariables::read(
    const HostGroup& hosts, const std::string& job) const {
  auto all = to_place_;
  for (HostHandle* host : hosts.hosts()) {
    LEAT_ASSIGN_OR_RETURN(auto held, host->read_variables(job));
    for (auto& [name, value] : held) {
      if (placed_.contains({host->task(), name}))
        all[host->task()].insert_or_assign(name, std::move(value));
    }
  }
  return all;
}

}  // namespace leat
