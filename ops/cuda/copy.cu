// Strided copies, fills and copies by tables.
#include "devices/cuda/launch.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/dispatch.cuh"

namespace leat::cuda {
namespace {

template <typename T, typename Index>
__device__ inline void copy_element(const CopyCall& call, Index i) {
  int64_t from = 0, to = 0;
  for (int d = call.rank - 1; d >= 0; --d) {
    const Index size = static_cast<Index>(call.sizes[d]);
    const Index digit = d == 0 ? i : i % size;
    i /= size;
    from += static_cast<int64_t>(digit) * call.in_steps[d];
    to += static_cast<int64_t>(digit) * call.out_steps[d];
  }
  static_cast<T*>(call.out)[to] = static_cast<const T*>(call.in)[from];
}

template <typename T>
__global__ void strided_copy(CopyCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  // Divisions of 64 bits take several times as long.
  if (call.elements <= 0x7fffffff)
    copy_element<T>(call, static_cast<uint32_t>(i));
  else
    copy_element<T>(call, static_cast<uint64_t>(i));
}

template <typename T>
__global__ void fill(T* out, const T* value, T fallback, int64_t elements) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < elements) out[i] = value ? *value : fallback;
}

template <typename T>
__global__ void table_copy(TableCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  int64_t from = 0, left = i;
  for (int d = call.rank - 1; d >= 0; --d) {
    from += call.tables[call.begins[d] + left % call.sizes[d]];
    left /= call.sizes[d];
  }
  static_cast<T*>(call.out)[i] = static_cast<const T*>(call.in)[from];
}

}  // namespace

cudaError_t launch_copy(const CopyCall& call, size_t element_bytes, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&strided_copy<decltype(element)>>(one_thread_each(call.elements), stream, call);
  });
}

cudaError_t launch_fill(void* out, const void* value, int64_t elements, size_t element_bytes,
                        cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    return launch<&fill<T>>(one_thread_each(elements), stream, static_cast<T*>(out),
                            static_cast<const T*>(value), T{0}, elements);
  });
}

cudaError_t launch_fill_bits(void* out, uint64_t bits, int64_t elements, size_t element_bytes,
                             cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    return launch<&fill<T>>(one_thread_each(elements), stream, static_cast<T*>(out),
                            static_cast<const T*>(nullptr), static_cast<T>(bits), elements);
  });
}

cudaError_t launch_table_copy(const TableCall& call, size_t element_bytes, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_size(element_bytes, [&](auto element) {
    return launch<&table_copy<decltype(element)>>(one_thread_each(call.elements), stream, call);
  });
}

}  // namespace leat::cuda
