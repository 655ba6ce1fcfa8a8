// Neighbouring elements that a thread reads or writes at once. A warp that reads single elements of
// 16 bits brings 64 bytes with each load; with 16 bytes for each lane it is 512.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "devices/base/float16.h"
#include "devices/base/inline.h"

namespace leat::cuda {

inline constexpr size_t kVectorBytes = 16;  // of a load, and of the alignment that it needs

LEAT_INLINE bool is_aligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % kVectorBytes == 0;
}

template <typename T, int n>
struct alignas(sizeof(T) * n < kVectorBytes ? sizeof(T) * n : kVectorBytes) Vector {
  T of[n];
};
template <typename T, int n>
__device__ inline Vector<T, n> load_vector(const T* at) {
  return *reinterpret_cast<const Vector<T, n>*>(at);
}
template <typename T, int n>
__device__ inline void store_vector(T* at, const Vector<T, n>& value) {
  *reinterpret_cast<Vector<T, n>*>(at) = value;
}

template <typename T>
inline constexpr bool kIsNarrow =
    std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// The elements that a thread computes at once from elements of X to elements of Y: as many as the
// smaller ones in 16 bytes, and 1 but for floats of at most 32 bits.
template <typename X, typename Y = X>
constexpr int neighbours_of() {
  if (!kIsNarrow<X> || !kIsNarrow<Y>) return 1;
  return static_cast<int>(kVectorBytes / (sizeof(X) < sizeof(Y) ? sizeof(X) : sizeof(Y)));
}

}  // namespace leat::cuda
