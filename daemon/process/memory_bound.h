// The kernel's bound on the memory of a runner's process, for memory that the runner does not count
// before it allocates. The runner refuses allocations that it does count much earlier, with
// numbers: see device_memory.h.
//
// The kernel counts private writable memory (RLIMIT_DATA), used or not. The bound is a sum of: the
// memory at the beginning (including a sanitizer's shadow memory); the limit of counted memory; the
// same amount again for plans and messages in transit; copies of the variables, for checkpoints and
// for readers; the stacks of threads; and 256 MiB for the rest.
#pragma once

#include <cstdint>

#include "devices/base/status.h"

namespace leat {

// The bound of this process. Threads: any.
class MemoryBound {
 public:
  // Sets the bound for at most `limit` bytes of counted memory and `threads` compute threads.
  static Result<MemoryBound> set(uint64_t limit, int threads);
  // Raises the bound by the room for copies of variables that have `variables` bytes.
  Status allow_copies(uint64_t variables) const;

 private:
  explicit MemoryBound(uint64_t without_copies) : without_copies_(without_copies) {}
  uint64_t without_copies_;
};

// The exit status of a runner whose process could not allocate memory.
inline constexpr int kRunnerOutOfMemory = 5;

// Installs handlers for the rest of the process: an allocation with `new` that fails, because of
// the bound or of the machine, prints a line on stderr and ends the process with
// kRunnerOutOfMemory. An allocation that returns a Status to its caller, such as Tensor::create(),
// does not end it.
void end_when_out_of_memory();

}  // namespace leat
