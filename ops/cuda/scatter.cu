#include <bit>
#include <limits>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/index_places.cuh"
#include "ops/cuda/scatter.h"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::load;
using elementwise::store;
using elementwise::wrap_add;
using elementwise::wrap_mul;

// The destination of an update that has none: it is sorted to the end.
constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

// Updates with their destinations, as many as a power of two.
struct Sorting {
  int64_t* keys = nullptr;
  int64_t* updates = nullptr;
  int64_t count = 0;
};
Sorting sorting_of(const ScatterCall& call) {
  Sorting sorting;
  sorting.count = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(call.updates)));
  sorting.keys = static_cast<int64_t*>(call.workspace);
  sorting.updates = sorting.keys + sorting.count;
  return sorting;
}

template <typename Destination>
__device__ inline void list(const Sorting& sorting, int64_t updates, Destination destination) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= sorting.count) return;
  const int64_t to = i < updates ? destination(i) : -1;
  sorting.keys[i] = to < 0 ? kNowhere : to;
  sorting.updates[i] = i;
}
__global__ void list_elements(Sorting sorting, GatherElementsCall places) {
  list(sorting, places.gather.indices, [&](int64_t j) { return offset_of(places, j); });
}
__global__ void list_lines(Sorting sorting, GatherNdCall places) {
  list(sorting, places.tuples, [&](int64_t j) { return line_of(places, j); });
}

// K. E. Batcher's bitonic sort: "Sorting networks and their applications", AFIPS 1968. One exchange
// of each pair at a distance, in runs of `run` that are sorted up and down in turn. No two updates
// are equal, so that the order is one, and that of the updates within a destination.
__global__ void exchange(Sorting sorting, int64_t run, int64_t distance) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, other = i ^ distance;
  if (i >= sorting.count || other < i) return;
  const int64_t key = sorting.keys[i], other_key = sorting.keys[other];
  const int64_t update = sorting.updates[i], other_update = sorting.updates[other];
  const bool is_above = key != other_key ? key > other_key : update > other_update;
  const bool goes_up = (i & run) == 0;
  if (is_above != goes_up) return;
  sorting.keys[i] = other_key;
  sorting.keys[other] = key;
  sorting.updates[i] = other_update;
  sorting.updates[other] = update;
}

cudaError_t sort(const Sorting& sorting, cudaStream_t stream) {
  for (int64_t run = 2; run <= sorting.count; run *= 2) {
    for (int64_t distance = run / 2; distance > 0; distance /= 2) {
      const auto error =
          launch<&exchange>(one_thread_each(sorting.count), stream, sorting, run, distance);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

// As scattered() of the CPU's kernels.
template <typename T>
__device__ inline T updated(ScatterKind kind, T was, T update) {
  if (kind == ScatterKind::none) return update;
  if constexpr (std::is_same_v<T, bool>) {
    const bool both = kind == ScatterKind::mul || kind == ScatterKind::min;
    return both ? was && update : was || update;
  } else {
    const auto a = load(was), b = load(update);
    switch (kind) {
      case ScatterKind::add:
        return store<T>(wrap_add(a, b));
      case ScatterKind::mul:
        return store<T>(wrap_mul(a, b));
      case ScatterKind::min:
        return store<T>(b < a ? b : a);
      default:
        return store<T>(a < b ? b : a);
    }
  }
}

// One thread for each element of the line of each update: that of a destination's first update does
// all of them.
template <typename T>
__global__ void update_lines(ScatterCall call, Sorting sorting) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.updates * call.line) return;
  const int64_t first = i / call.line, column = i % call.line, key = sorting.keys[first];
  if (key == kNowhere || (first > 0 && sorting.keys[first - 1] == key)) return;
  T* y = static_cast<T*>(call.y) + key * call.line + column;
  T value = *y;
  for (int64_t at = first; at < call.updates && sorting.keys[at] == key; ++at) {
    const T* update = static_cast<const T*>(call.update) + sorting.updates[at] * call.line + column;
    value = updated(call.kind, value, *update);
  }
  *y = value;
}

template <typename List>
cudaError_t scatter(const ScatterCall& call, DType dtype, cudaStream_t stream, List list) {
  const size_t bytes = static_cast<size_t>(call.elements) * dtype_size(dtype);
  cudaError_t error = cudaSuccess;
  if (bytes > 0 && !call.data) error = cudaMemsetAsync(call.y, 0, bytes, stream);
  if (bytes > 0 && call.data && call.data != call.y)
    error = cudaMemcpyAsync(call.y, call.data, bytes, cudaMemcpyDeviceToDevice, stream);
  if (error != cudaSuccess || call.updates * call.line == 0) return error;
  const Sorting sorting = sorting_of(call);
  error = list(sorting);
  if (error == cudaSuccess) error = sort(sorting, stream);
  if (error != cudaSuccess) return error;
  return dispatch_all(dtype, [&](auto zero) {
    return launch<&update_lines<decltype(zero)>>(one_thread_each(call.updates * call.line), stream,
                                                 call, sorting);
  });
}

}  // namespace

size_t scatter_workspace(int64_t updates) {
  return 2 * std::bit_ceil(static_cast<uint64_t>(updates)) * sizeof(int64_t);
}

cudaError_t launch_scatter_elements(const ScatterCall& call, const GatherElementsCall& places,
                                    DType dtype, cudaStream_t stream) {
  return scatter(call, dtype, stream, [&](const Sorting& sorting) {
    return launch<&list_elements>(one_thread_each(sorting.count), stream, sorting, places);
  });
}

cudaError_t launch_scatter_nd(const ScatterCall& call, const GatherNdCall& places, DType dtype,
                              cudaStream_t stream) {
  return scatter(call, dtype, stream, [&](const Sorting& sorting) {
    return launch<&list_lines>(one_thread_each(sorting.count), stream, sorting, places);
  });
}

}  // namespace leat::cuda
