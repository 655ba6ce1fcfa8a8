// The kernel's own bound on the memory of a runner's process: for what nobody counts before it is
// taken. What is counted is refused long before, with numbers: see device_memory.h.
//
// The kernel counts private memory that can be written (RLIMIT_DATA), used or not. The bound is the
// sum of what there is at the beginning (a sanitizer's shadow, too), the limit of what is counted,
// as much again for plans and messages on their way, copies of the variables (for checkpoints, and
// for whoever reads them), the stacks of threads, and 256 MiB for all the rest.
#pragma once

#include <cstdint>

#include "devices/base/status.h"

namespace leat {

// Threads: any.
class MemoryBound {
 public:
  // Of this process: no more than `limit` bytes are counted, and `threads` threads compute.
  static Result<MemoryBound> set(uint64_t limit, int threads);
  // The variables that may be copied have so many bytes.
  Status allow_copies(uint64_t variables) const;

 private:
  explicit MemoryBound(uint64_t without_copies) : without_copies_(without_copies) {}
  uint64_t without_copies_;
};

// The exit status of a runner whose process got no more memory.
inline constexpr int kRunnerOutOfMemory = 5;

// An allocation that fails, for the bound or for want of memory, ends the process from now on, with
// a line on its standard error and kRunnerOutOfMemory; but for those whose caller
// asks for a Status, such as Tensor::create().
void end_when_out_of_memory();

}  // namespace leat
