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

struct alignas(16) Bytes16 {
  uint64_t words[2];
};

// Joins elements that lie side by side in both memories, to copy up to 16 bytes at a time. Returns
// the bytes of the joined ones.
size_t widen(CopyCall& call, size_t element_bytes) {
  const int last = call.rank - 1;
  if (last < 0 || call.in_steps[last] != 1 || call.out_steps[last] != 1) return element_bytes;
  const auto in = reinterpret_cast<uintptr_t>(call.in), out = reinterpret_cast<uintptr_t>(call.out);
  for (size_t bytes = sizeof(Bytes16); bytes > element_bytes; bytes /= 2) {
    const auto joined = static_cast<int64_t>(bytes / element_bytes);
    bool fits = in % bytes == 0 && out % bytes == 0 && call.sizes[last] % joined == 0;
    for (int d = 0; d < last; ++d)
      fits = fits && call.in_steps[d] % joined == 0 && call.out_steps[d] % joined == 0;
    if (!fits) continue;
    call.elements /= joined;
    call.sizes[last] /= joined;
    for (int d = 0; d < last; ++d) {
      call.in_steps[d] /= joined;
      call.out_steps[d] /= joined;
    }
    return bytes;
  }
  return element_bytes;
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
  CopyCall wide = call;
  const size_t bytes = widen(wide, element_bytes);
  const auto run = [&](auto element) {
    return launch<&strided_copy<decltype(element)>>(one_thread_each(wide.elements), stream, wide);
  };
  return bytes == sizeof(Bytes16) ? run(Bytes16{}) : dispatch_size(bytes, run);
}

cudaError_t launch_fill(void* out, const void* value, int64_t elements, size_t element_bytes,
                        cudaStream_t stream) {
  if (elements == 0) return cudaSuccess;
  if (!value) return cudaMemsetAsync(out, 0, static_cast<size_t>(elements) * element_bytes, stream);
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
