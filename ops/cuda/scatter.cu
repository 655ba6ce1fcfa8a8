#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/index_places.cuh"
#include "ops/cuda/scatter.h"
#include "ops/cuda/sorting.h"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::load;
using elementwise::store;
using elementwise::wrap_add;
using elementwise::wrap_mul;

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
  const Sorting sorting = sorting_within(call.workspace, call.updates);
  error = list(sorting);
  if (error == cudaSuccess) error = launch_sort(sorting, stream);
  if (error != cudaSuccess) return error;
  return dispatch_all(dtype, [&](auto zero) {
    return launch<&update_lines<decltype(zero)>>(one_thread_each(call.updates * call.line), stream,
                                                 call, sorting);
  });
}

}  // namespace

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
