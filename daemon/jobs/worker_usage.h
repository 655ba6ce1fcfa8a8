// The CPU time and the memory that a worker uses of its machine.
//
// Threads: values.
#pragma once

#include <cstdint>

namespace leat {

// The use of a worker and its runners together.
struct WorkerUsage {
  uint64_t cpu_ms = 0;          // CPU time since the worker started; never falls
  uint64_t resident_bytes = 0;  // memory that is resident now; shared pages count in each process
};

}  // namespace leat
