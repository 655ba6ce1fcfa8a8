// The facts that a runner reports when it registers: RunnerInfo of cluster.capnp, without the token
// that proves them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/core/device_wire.h"

namespace leat {

// A device of a runner besides its CPU.
struct RunnerDevice {
  std::string name;                  // the last part of its full name, "gpu:0"
  std::string kind;                  // of its kernels, "cuda"
  uint64_t memory_bytes = 0;         // that plans may reserve
  uint64_t alignment = 0;            // of values in its memory, in bytes
  std::string description;           // its model and libraries
  std::vector<WireKind> wires = {};  // that it has and may use
};

// Threads: a value.
struct RunnerInfo {
  std::string job;            // the master's id of the job
  uint64_t assembly = 0;      // the number of the assembly that it was started for
  uint32_t task = 0;          // its number among the runners of the assembly, from 0
  uint64_t incarnation = 0;   // random, of this process: messages of an earlier one are refused
  std::string device_name;    // "job:worker/task:2/cpu:0"
  uint64_t memory_bytes = 0;  // that plans may reserve on the CPU
  uint32_t threads = 0;       // that compute
  std::string unix_address;   // for peers on its machine
  std::vector<RunnerDevice> accelerators = {};
};

}  // namespace leat
