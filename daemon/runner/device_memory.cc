#include "daemon/runner/device_memory.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

Status DeviceMemory::reserve(uint64_t run, const Partition& partition, uint64_t fetch_bytes) {
  const uint64_t own = partition.memory_bytes() - partition.resource_bytes() + fetch_bytes;
  std::lock_guard lock(mutex_);
  std::map<std::string, uint64_t> resources = resources_;
  for (const PlanResource& resource : partition.resources) {
    uint64_t& bytes = resources[resource.name];
    bytes = std::max(bytes, resource.bytes);
  }
  uint64_t variables = 0, others = 0;
  for (const auto& [name, bytes] : resources) variables += bytes;
  for (const auto& [other, bytes] : runs_) others += other == run ? 0 : bytes;
  if (variables > limit_ || others > limit_ - variables || own > limit_ - variables - others) {
    return resource_exhausted(cat(
        partition.device, ": expected run ", run, " to fit ", human_bytes(limit_), ", it needs ",
        human_bytes(own), " (arena ", human_bytes(partition.arena_bytes), ", constants ",
        human_bytes(partition.constant_bytes()), ", slots ", human_bytes(partition.slot_bytes()),
        ", fetches ", human_bytes(fetch_bytes), ") beside ", human_bytes(variables),
        " of variables and ", human_bytes(others), " of other runs"));
  }
  runs_[run] = own;
  resources_ = std::move(resources);
  return {};
}

void DeviceMemory::release(uint64_t run) {
  std::lock_guard lock(mutex_);
  runs_.erase(run);
}

}  // namespace leat
