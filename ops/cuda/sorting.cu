#include <algorithm>
#include <bit>

#include "devices/cuda/launch.h"
#include "ops/cuda/sorting.h"

// K. E. Batcher's bitonic sort: "Sorting networks and their applications", AFIPS 1968. Runs of
// `run` are sorted up and down in turn, by exchanges of pairs at distances that halve. No two
// updates are equal, so that the order is one.
namespace leat::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kHeld = 2 * kThreads;  // what a block sorts in shared memory

__device__ inline bool is_in_order(int64_t key, int64_t update, int64_t other_key,
                                   int64_t other_update, bool goes_up) {
  const bool is_above = key != other_key ? key > other_key : update > other_update;
  return is_above != goes_up;
}

// One exchange of each pair at a distance.
__global__ void exchange(Sorting sorting, int64_t run, int64_t distance) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, other = i ^ distance;
  if (i >= sorting.count || other < i) return;
  const int64_t key = sorting.keys[i], other_key = sorting.keys[other];
  const int64_t update = sorting.updates[i], other_update = sorting.updates[other];
  if (is_in_order(key, update, other_key, other_update, (i & run) == 0)) return;
  sorting.keys[i] = other_key;
  sorting.keys[other] = key;
  sorting.updates[i] = other_update;
  sorting.updates[other] = update;
}

// All exchanges of the runs from first_run to last_run within kHeld places of each block; two
// places for each thread.
__global__ void exchange_within(Sorting sorting, int64_t first_run, int64_t last_run) {
  __shared__ int64_t keys[kHeld];
  __shared__ int64_t updates[kHeld];
  const int64_t begin = int64_t{blockIdx.x} * kHeld;
  for (int i = static_cast<int>(threadIdx.x); i < kHeld; i += kThreads) {
    const bool there = begin + i < sorting.count;
    keys[i] = there ? sorting.keys[begin + i] : kNowhere;
    updates[i] = there ? sorting.updates[begin + i] : begin + i;
  }
  __syncthreads();
  for (int64_t run = first_run; run <= last_run; run *= 2) {
    const auto longest = static_cast<int>(run / 2 < kThreads ? run / 2 : kThreads);
    for (int distance = longest; distance > 0; distance /= 2) {
      const int t = static_cast<int>(threadIdx.x);
      const int i = t / distance * 2 * distance + t % distance, other = i + distance;
      if (!is_in_order(keys[i], updates[i], keys[other], updates[other],
                       ((begin + i) & run) == 0)) {
        const int64_t key = keys[i], update = updates[i];
        keys[i] = keys[other];
        updates[i] = updates[other];
        keys[other] = key;
        updates[other] = update;
      }
      __syncthreads();
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < kHeld; i += kThreads) {
    if (begin + i >= sorting.count) continue;
    sorting.keys[begin + i] = keys[i];
    sorting.updates[begin + i] = updates[i];
  }
}

int64_t padded(int64_t updates) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(updates)));
}

}  // namespace

size_t sorting_bytes(int64_t updates) {
  return 2 * static_cast<size_t>(padded(updates)) * sizeof(int64_t);
}

Sorting sorting_within(void* workspace, int64_t updates) {
  Sorting sorting;
  sorting.count = padded(updates);
  sorting.keys = static_cast<int64_t*>(workspace);
  sorting.updates = sorting.keys + sorting.count;
  return sorting;
}

cudaError_t launch_sort(const Sorting& sorting, cudaStream_t stream) {
  const LaunchShape blocks{dim3(static_cast<unsigned>((sorting.count + kHeld - 1) / kHeld)),
                           dim3(kThreads)};
  const int64_t held = std::min<int64_t>(sorting.count, kHeld);
  cudaError_t error = launch<&exchange_within>(blocks, stream, sorting, int64_t{2}, held);
  for (int64_t run = 2 * held; run <= sorting.count; run *= 2) {
    for (int64_t distance = run / 2; distance >= kHeld; distance /= 2) {
      if (error == cudaSuccess)
        error = launch<&exchange>(one_thread_each(sorting.count), stream, sorting, run, distance);
    }
    if (error == cudaSuccess) error = launch<&exchange_within>(blocks, stream, sorting, run, run);
  }
  return error;
}

}  // namespace leat::cuda
