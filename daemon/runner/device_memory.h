// Counts the memory of a runner's runs before it is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "scheduler/plan/plan.h"

namespace leat {

// JobRunner owns it. A reservation is a number only: nothing is allocated here, and the runner
// allocates only after it succeeded. So a plan that is too large is refused before it takes memory
// from the other runs.
// A run holds its arena, constants and slots until it is released. The variables and the data sets
// belong to the job: each counts once, until the runner ends. Threads: any.
class DeviceMemory {
 public:
  // Gets the bytes of all variables whenever they grow; may be empty. The callback runs under the
  // lock and must not call this object.
  using OnVariables = std::function<void(uint64_t bytes)>;

  // `limit`: in bytes, for all runs, variables and data sets together.
  explicit DeviceMemory(uint64_t limit) : limit_(limit) {}

  // Reserves the memory of the partition and of its fetches. resource_exhausted, with the numbers,
  // if it does not fit. A repeated call for the same run replaces its reservation. A variable
  // counts with the largest size that any plan gave it. On error nothing is reserved.
  Status reserve(uint64_t run, const Partition& partition, uint64_t fetch_bytes);
  // The same for the data set of that name: see GrantMemory. A set that several runs read counts
  // once, with its largest size.
  Status reserve_data(const std::string& name, uint64_t bytes);
  // Gives the run's own memory back; variables and data stay. Does nothing for an unknown run.
  void release(uint64_t run);
  uint64_t limit() const { return limit_; }
  // To be set before there are runs.
  void on_variables(OnVariables told) { on_variables_ = std::move(told); }

 private:
  using Sizes = std::map<std::string, uint64_t>;  // bytes by name
  static uint64_t total(const Sizes& sizes);
  // The bytes of all runs but one. REQUIRES: the mutex is held.
  uint64_t of_runs(std::optional<uint64_t> but = {}) const;

  const uint64_t limit_;
  OnVariables on_variables_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> runs_;  // bytes
  Sizes resources_, data_;
};

}  // namespace leat
