// Counts the memory of a runner's runs, on each of its devices, before it is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/reserved_memory.h"
#include "daemon/wire/run_part.h"
#include "scheduler/plan/plan.h"

namespace leat {

// JobRunner owns it. A reservation is a number only: nothing is allocated here, and the runner
// allocates only after it succeeded. So a plan that is too large is refused before it takes memory
// from the other runs.
// A run holds its arena, constants and slots until it is released. The variables and the data sets
// belong to the job: each counts once, until the runner ends. Threads: any.
class DeviceMemory {
 public:
  // Gets the bytes of all variables in the memory of this machine whenever they grow; may be empty.
  // The callback runs under the lock and must not call this object.
  using OnVariables = std::function<void(uint64_t bytes)>;

  // `limits`: by device, in bytes, for all runs, variables and data sets on it together. Data sets
  // are on the first one, the CPU.
  explicit DeviceMemory(const std::vector<uint64_t>& limits);

  // Reserves the memory of the partition, which is on that device, and of its fetches.
  // resource_exhausted, with the numbers, if it does not fit. A repeated call for the same part
  // replaces its reservation. A variable counts with the largest size that any plan gave it. On
  // error nothing is reserved. REQUIRES: there is a limit for the device.
  Status reserve(const RunPart& part, size_t device, const Partition& partition,
                 uint64_t fetch_bytes);
  // The same for the data set of that name: see GrantMemory. A set that several runs read counts
  // once, with its largest size.
  Status reserve_data(const std::string& name, uint64_t bytes);
  // Gives the partition's own memory back; variables and data stay. Does nothing for an unknown
  // one.
  void release(const RunPart& part);
  // The reservations on the CPU, and on all other devices together.
  ReservedMemory on_host() const;
  ReservedMemory on_accelerators() const;
  // Of the CPU.
  uint64_t limit() const { return devices_[0].limit; }
  // To be set before there are runs.
  void on_variables(OnVariables told) { on_variables_ = std::move(told); }

 private:
  using Sizes = std::map<std::string, uint64_t>;  // bytes by name
  struct Reserved {
    explicit Reserved(uint64_t bytes) : limit(bytes) {}
    const uint64_t limit;
    std::map<RunPart, ReservedMemory> runs;  // without variables and data
    Sizes resources;
    // The bytes of all runs but one.
    uint64_t of_runs(std::optional<RunPart> but = {}) const;
    // All that is reserved, but for data.
    ReservedMemory sum() const;
  };
  static uint64_t sum_of(const Sizes& sizes);

  OnVariables on_variables_;
  mutable std::mutex mutex_;
  std::vector<Reserved> devices_;
  Sizes data_;
};

}  // namespace leat
