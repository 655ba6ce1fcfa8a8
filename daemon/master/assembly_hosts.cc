#include "daemon/master/assembly_hosts.h"

#include <map>
#include <set>

#include "daemon/master/journal_thread.h"
#include "daemon/master/wire_workforce.h"
#include "daemon/remote/last_steps.h"
#include "daemon/remote/remote_hosts.h"
#include "devices/base/text.h"

namespace leat {

Result<std::unique_ptr<HostGroup>> make_assembly_hosts(MasterParts& parts, const RunJob& action) {
  LEAT_ASSIGN_OR_RETURN(
      auto runners, parts.workforce->runners(action.job, action.assembly, action.workers.size()));
  RemoteHostsOptions options;
  // The id goes into each run's setup, as 16 bytes.
  if (!from_hex(parts.journal->cluster_id(), options.cluster))
    return internal_error(cat("cluster id: expected 32 hexadecimal digits, the journal has '",
                              parts.journal->cluster_id(), "'"));
  options.assembly = action.assembly;
  return make_remote_hosts(*parts.loop, std::move(runners), std::move(options));
}

std::function<void()> noter_of(MasterParts& parts, const RunJob& action) {
  auto runners = parts.workforce->runners(action.job, action.assembly, action.workers.size());
  if (!runners.ok()) return [] {};
  return [&parts, job = action.job, hosts = std::move(*runners)] {
    parts.post_mortems.note(job, last_steps(hosts));
  };
}

std::string processors_of(const MasterParts& parts, const RunJob& action) {
  std::set<std::string> models;
  for (const WorkerRef& worker : action.workers) {
    // A worker that was lost meanwhile is left out: its assembly ends anyway.
    const auto info = parts.state->tables().member(worker);
    if (!info) continue;
    for (const WorkerDevice& device : info->devices) {
      if (device.kind == "cpu") models.insert(device.description);
    }
  }
  std::string text = join(std::vector<std::string>(models.begin(), models.end()), " and ");
  // The GPUs that the runners have opened, with the libraries that they found.
  const auto runners = parts.workforce->runners(action.job, action.assembly, action.workers.size());
  if (!runners.ok()) return text;
  std::set<std::string> gpus;
  for (const auto& runner : *runners) {
    for (const RunnerDevice& device : runner->facts().accelerators) gpus.insert(device.description);
  }
  if (gpus.empty()) return text;
  return cat(text, ", ", join(std::vector<std::string>(gpus.begin(), gpus.end()), " and "));
}

Status arm_faults(MasterParts& parts, const RunJob& action, const std::vector<ArmedFault>& faults) {
  std::map<uint32_t, std::vector<ArmedFault>> by_task;
  for (const ArmedFault& each : faults) {
    // A task of an elastic job may be one that this assembly does not have.
    const bool is_here =
        each.fault.target != ChaosTarget::master && each.fault.task < action.workers.size();
    if (is_here) by_task[each.fault.task].push_back(each);
  }
  Status first;  // of a runner; the others are armed all the same
  for (const auto& [task, own] : by_task) {
    const auto runner = parts.workforce->runner(action.job, action.assembly, task);
    // This waits for the runner's answer, one runner after the other.
    const Status told = runner.ok() ? (*runner)->arm(own, action.ran) : runner.status();
    if (first.ok()) first = told;
  }
  return first;
}

}  // namespace leat
