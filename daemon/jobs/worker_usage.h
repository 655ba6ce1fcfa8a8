// The CPU time and the memory that a worker or a runner uses of its machine.
//
// Threads: values.
#pragma once

#include <cstdint>

#include "daemon/jobs/reserved_memory.h"

namespace leat {

// The use of a worker and its runners together, or of one runner.
struct WorkerUsage {
  uint64_t cpu_ms = 0;          // CPU time since its start; never falls
  uint64_t resident_bytes = 0;  // memory that is resident now; shared pages count in each process
  ReservedMemory host = {};     // that runners have reserved in the machine's memory,
  ReservedMemory accelerators = {};  // and in that of its other devices
};

inline WorkerUsage& operator+=(WorkerUsage& sum, const WorkerUsage& more) {
  sum.cpu_ms += more.cpu_ms;
  sum.resident_bytes += more.resident_bytes;
  sum.host += more.host;
  sum.accelerators += more.accelerators;
  return sum;
}

}  // namespace leat
