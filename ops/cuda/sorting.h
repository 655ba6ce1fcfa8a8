// Sorting on CUDA: what brings updates of one destination together, in their order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace leat::cuda {

// Updates and the keys of their destinations, as many as a power of two, in the device's memory.
struct Sorting {
  int64_t* keys = nullptr;
  int64_t* updates = nullptr;
  int64_t count = 0;
};
// The key of an update that has no destination, and of what is behind the last one: it is sorted to
// the end.
inline constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

// The bytes that a Sorting of so many updates needs, and the Sorting within them.
size_t sorting_bytes(int64_t updates);
Sorting sorting_within(void* workspace, int64_t updates);

// Sorts by key, and by update where keys are equal. REQUIRES: all of `count` are written.
cudaError_t launch_sort(const Sorting& sorting, cudaStream_t stream);

}  // namespace leat::cuda
