#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/index_places.cuh"
#include "ops/cuda/warp_fold.cuh"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::load;
using elementwise::store;

template <typename T>
__global__ void gather(GatherCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.outer * call.indices * call.inner) return;
  const int64_t line = i / call.inner;
  const int64_t index = index_at(call, line % call.indices);
  const int64_t from = (line / call.indices * call.size + index) * call.inner + i % call.inner;
  static_cast<T*>(call.out)[i] = index < 0 ? T{0} : static_cast<const T*>(call.in)[from];
}

// The first index in [begin, end) of this row, or `end`; found by one warp, for all of its lanes.
__device__ inline int64_t find_row(const GatherCall& call, int64_t row, int64_t begin,
                                   int64_t end) {
  for (int64_t at = begin; at < end; at += kWarp) {
    const int64_t mine = at + threadIdx.x % kWarp;
    const bool equal = mine < end && index_at(call, mine) == row;
    const int64_t found = fold_lanes_for_all<MinFold>(equal ? mine : end);
    if (found < end) return found;
  }
  return end;
}

// One warp for each index: the next one of the same row, or -1; and whether it is the first of its
// row.
__global__ void link_indices(GatherCall call) {
  const int64_t j = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (j >= call.indices) return;
  auto* next = static_cast<int64_t*>(call.workspace);
  int64_t* first = next + call.indices;
  const int64_t row = index_at(call, j);
  const int64_t after = find_row(call, row, j + 1, call.indices);
  const int64_t before = find_row(call, row, 0, j);
  if (threadIdx.x % kWarp != 0) return;
  next[j] = after < call.indices ? after : -1;
  first[j] = row >= 0 && before == j;
}

template <typename T>
__global__ void zero(T* out, int64_t elements) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < elements) out[i] = T{};
}

// One thread for each element of the line of each index that is the first of its row: it adds the
// lines of that row in their order, and rounds after each addition.
template <typename T>
__global__ void add_lines(GatherCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.outer * call.indices * call.inner) return;
  const auto* next = static_cast<const int64_t*>(call.workspace);
  const int64_t column = i % call.inner, j = i / call.inner % call.indices;
  const int64_t outer = i / call.inner / call.indices;
  if (!next[call.indices + j]) return;
  const T* from = static_cast<const T*>(call.in) + outer * call.indices * call.inner + column;
  T sum{};
  for (int64_t at = j; at >= 0; at = next[at])
    sum = store<T>(load(sum) + load(from[at * call.inner]));
  const int64_t row = index_at(call, j);
  static_cast<T*>(call.out)[(outer * call.size + row) * call.inner + column] = sum;
}

template <typename T>
__global__ void gather_elements(GatherElementsCall call) {
  const int64_t j = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= call.gather.indices) return;
  const int64_t from = offset_of(call, j);
  static_cast<T*>(call.gather.out)[j] =
      from < 0 ? T{0} : static_cast<const T*>(call.gather.in)[from];
}

template <typename T>
__global__ void trilu(TriluCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.matrices * call.rows * call.columns) return;
  const int64_t column = i % call.columns, row = i / call.columns % call.rows;
  const int64_t beyond = column - row;
  const bool kept = call.upper ? beyond >= call.diagonal : beyond <= call.diagonal;
  static_cast<T*>(call.out)[i] = kept ? static_cast<const T*>(call.in)[i] : T{0};
}

}  // namespace

cudaError_t launch_gather(const GatherCall& call, size_t element_bytes, cudaStream_t stream) {
  const int64_t elements = call.outer * call.indices * call.inner;
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&gather<decltype(element)>>(one_thread_each(elements), stream, call);
  });
}

cudaError_t launch_gather_grad(const GatherCall& call, DType dtype, cudaStream_t stream) {
  return dispatch_floats(dtype, [&](auto null) {
    using T = decltype(null);
    const int64_t elements = call.outer * call.size * call.inner;
    const int64_t lines = call.outer * call.indices * call.inner;
    cudaError_t error = cudaSuccess;
    if (elements > 0)
      error =
          launch<&zero<T>>(one_thread_each(elements), stream, static_cast<T*>(call.out), elements);
    if (error != cudaSuccess || lines == 0) return error;
    error = launch<&link_indices>(one_warp_each(call.indices), stream, call);
    if (error != cudaSuccess) return error;
    return launch<&add_lines<T>>(one_thread_each(lines), stream, call);
  });
}

cudaError_t launch_gather_elements(const GatherElementsCall& call, size_t element_bytes,
                                   cudaStream_t stream) {
  if (call.gather.indices == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&gather_elements<decltype(element)>>(one_thread_each(call.gather.indices), stream,
                                                       call);
  });
}

cudaError_t launch_trilu(const TriluCall& call, size_t element_bytes, cudaStream_t stream) {
  const int64_t elements = call.matrices * call.rows * call.columns;
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&trilu<decltype(element)>>(one_thread_each(elements), stream, call);
  });
}

}  // namespace leat::cuda
