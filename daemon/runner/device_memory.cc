#include "daemon/runner/device_memory.h"

#include <algorithm>
#include <initializer_list>

#include "devices/base/text.h"

namespace leat {
namespace {

// True if the sum is at most `limit`. The numbers may be so large that the sum would overflow.
bool fit(uint64_t limit, std::initializer_list<uint64_t> sizes) {
  for (const uint64_t size : sizes) {
    if (size > limit) return false;
    limit -= size;
  }
  return true;
}

}  // namespace

uint64_t DeviceMemory::sum_of(const Sizes& sizes) {
  uint64_t bytes = 0;
  for (const auto& [name, size] : sizes) bytes += size;
  return bytes;
}

uint64_t DeviceMemory::Reserved::of_runs(std::optional<RunPart> but) const {
  uint64_t bytes = 0;
  for (const auto& [part, memory] : runs) bytes += part == but ? 0 : total(memory);
  return bytes;
}

ReservedMemory DeviceMemory::Reserved::sum() const {
  ReservedMemory sum;
  for (const auto& [part, memory] : runs) sum += memory;
  sum.variables = sum_of(resources);
  return sum;
}

DeviceMemory::DeviceMemory(const std::vector<uint64_t>& limits)
    : devices_(limits.begin(), limits.end()) {}

Status DeviceMemory::reserve(const RunPart& part, size_t device, const Partition& partition,
                             uint64_t fetch_bytes) {
  // The variables are left out here, because the job holds them once for all of its runs.
  ReservedMemory run;
  run.activations = partition.arena_bytes;
  run.constants = partition.constant_bytes();
  run.transfers = partition.slot_bytes() + partition.page_bytes();
  run.fetches = fetch_bytes;
  const uint64_t own = total(run);
  std::lock_guard lock(mutex_);
  Reserved& there = devices_[device];
  // A copy, which takes effect only if everything fits. A variable counts with its largest size.
  Sizes resources = there.resources;
  for (const PlanResource& resource : partition.resources) {
    uint64_t& bytes = resources[resource.name];
    bytes = std::max(bytes, resource.bytes);
  }
  // A repeated call for the same run replaces its bytes, so they do not count among the others.
  const uint64_t variables = sum_of(resources), others = there.of_runs(part);
  const uint64_t data = device == 0 ? sum_of(data_) : 0;
  if (!fit(there.limit, {variables, data, others, own})) {
    return resource_exhausted(
        cat(partition.device, ": expected run ", part.run, " to fit ", human_bytes(there.limit),
            ", it needs ", human_bytes(own), " (arena ", human_bytes(partition.arena_bytes),
            ", constants ", human_bytes(partition.constant_bytes()), ", slots ",
            human_bytes(partition.slot_bytes()), ", fetches ", human_bytes(fetch_bytes),
            ") beside ", human_bytes(variables), " of variables, ", human_bytes(data),
            " of data and ", human_bytes(others), " of other runs"));
  }
  // The bound of the process has room for copies of the variables, so it grows with them.
  const bool more = device == 0 && variables > sum_of(there.resources);
  there.runs[part] = run;
  there.resources = std::move(resources);
  if (more && on_variables_) on_variables_(variables);
  return {};
}

Status DeviceMemory::reserve_data(const std::string& name, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  // Runs that read the same set share it, so it counts once, with its largest size.
  Sizes sets = data_;
  uint64_t& size = sets[name];
  size = std::max(size, bytes);
  const uint64_t variables = sum_of(devices_[0].resources), data = sum_of(data_);
  const uint64_t runs = devices_[0].of_runs();
  if (!fit(limit(), {variables, runs, sum_of(sets)})) {
    return resource_exhausted(
        cat("data '", name, "': expected it to fit ", human_bytes(limit()),
            ", the memory that jobs may use here, it needs ", human_bytes(bytes), " beside ",
            human_bytes(variables), " of variables, ", human_bytes(runs), " of runs and ",
            human_bytes(data),
            " of other data; use less data, or raise memory_limit of the worker, or the job's "
            "share of it"));
  }
  data_ = std::move(sets);
  return {};
}

ReservedMemory DeviceMemory::on_host() const {
  std::lock_guard lock(mutex_);
  ReservedMemory memory = devices_[0].sum();
  memory.data = sum_of(data_);
  return memory;
}

ReservedMemory DeviceMemory::on_accelerators() const {
  std::lock_guard lock(mutex_);
  ReservedMemory memory;
  for (size_t i = 1; i < devices_.size(); ++i) memory += devices_[i].sum();
  return memory;
}

void DeviceMemory::release(const RunPart& part) {
  std::lock_guard lock(mutex_);
  for (Reserved& device : devices_) device.runs.erase(part);
}

}  // namespace leat
