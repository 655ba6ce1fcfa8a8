#include "daemon/jobs/worker_limits.h"

#include <algorithm>

#include "daemon/jobs/grammar.h"
#include "devices/base/glob.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

Status check_bounds(const WorkerInfo& info) {
  for (const WorkerDevice& device : info.devices) {
    const std::string whose = cat("worker '", printable(info.worker.name), "': device ",
                                  quoted_start(device.name), ": expected at most ");
    if (device.memory_bytes > kMostDeviceBytes) {
      return invalid_argument(cat(whose, human_bytes(kMostDeviceBytes), " of memory, received ",
                                  device.memory_bytes, " bytes"));
    }
    if (device.threads > kMostDeviceThreads) {
      return invalid_argument(
          cat(whose, kMostDeviceThreads, " threads, received ", device.threads));
    }
  }
  return {};
}

}  // namespace

Status check_claims(const WorkerInfo& info, std::string_view name, const WorkerLimits& limits) {
  LEAT_RETURN_IF_ERROR(check_bounds(info));
  const auto found = std::find_if(limits.begin(), limits.end(), [&](const auto& each) {
    return matches_glob(each.first, name) || matches_glob(each.first, info.worker.name);
  });
  if (found == limits.end()) return {};
  const auto& [pattern, limit] = *found;
  const auto beyond = [&, &pattern = pattern](std::string_view key, const std::string& most,
                                              const std::string& claimed) {
    return resource_exhausted(cat("worker '", printable(info.worker.name), "': expected at most ",
                                  most, " (worker_limits of '", pattern, "', ", key, "), received ",
                                  claimed));
  };
  const WorkerShare cpu = info.cpu();
  if (limit.memory != 0 && cpu.memory > limit.memory)
    return beyond("memory", human_bytes(limit.memory), human_bytes(cpu.memory));
  if (limit.cores != 0 && int64_t{cpu.cores} > limit.cores)
    return beyond("cores", cat(limit.cores, " cores"), cat(cpu.cores));
  int64_t devices = 0;
  for (const WorkerDevice& device : info.devices) {
    if (device.kind == "cpu") continue;
    ++devices;
    if (limit.device_memory != 0 && device.memory_bytes > limit.device_memory) {
      return beyond("device_memory", human_bytes(limit.device_memory),
                    human_bytes(device.memory_bytes));
    }
  }
  if (limit.devices != 0 && devices > limit.devices)
    return beyond("devices", cat(limit.devices, " devices"), cat(devices));
  return {};
}

}  // namespace leat
