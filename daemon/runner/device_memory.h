// What the runs of a runner have of its device's memory, counted before a byte of it is taken.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "scheduler/runtime/plan.h"

namespace leat {

// A run has its arena, constants and slots until it is released; the variables are the job's, each
// counted once, for as long as the runner lives. Threads: any.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t limit) : limit_(limit) {}

  // Reserves what the partition needs, and what is kept of its fetches. resource_exhausted, with
  // the numbers, if it does not fit.
  Status reserve(uint64_t run, const Partition& partition, uint64_t fetch_bytes);
  void release(uint64_t run);
  uint64_t limit() const { return limit_; }

 private:
  const uint64_t limit_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> runs_;          // bytes
  std::map<std::string, uint64_t> resources_;  // bytes
};

}  // namespace leat
