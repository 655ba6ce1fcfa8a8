// The facts that a runner reports when it registers: RunnerInfo of cluster.capnp, without the token
// that proves them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace leat {

// A device of a runner besides its CPU.
struct RunnerDevice {
  std::string name;  // the last part of its full name, "gpu:0"
  std::string kind;  // of its kernels, "cuda"
  uint64_t memory_bytes = 0;
  uint64_t alignment = 0;   // of values in its memory, in bytes
  std::string description;  // its model and libraries
};

// Threads: a value.
struct RunnerInfo {
  std::string job;  // the master's id of the job
  uint64_t assembly = 0;
  uint32_t task = 0;
  uint64_t incarnation = 0;
  std::string device_name;  // "job:worker/task:2/cpu:0"
  uint64_t memory_bytes = 0;
  uint32_t threads = 0;
  std::string unix_address;  // for peers on its machine
  std::vector<RunnerDevice> accelerators = {};
};

}  // namespace leat
