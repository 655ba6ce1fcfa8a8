// Products of small matrices by tensor cores, and what brings operands to them. All are operations
// of a whole warp but copy_async(). A build that runs kernels on the CPU computes the same by
// shuffles.
//
// The layouts are those of mma.sync.m16n8k16 (PTX ISA): with g = lane / 4 and t = lane % 4, a lane
// holds of the
//   sums [16, 8]      (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
//   left [16, 16]     4 words of two elements: (g, 2t..), (g+8, 2t..), (g, 2t+8..), (g+8, 2t+8..)
//   right [16, 8]     2 words of two elements: (2t.., g), (2t+8.., g)
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "devices/base/float16.h"
#include "devices/cuda/launch.h"
#include "ops/cuda/warp_fold.cuh"

namespace leat::cuda {

#ifdef LEAT_CUDA_EMULATED

template <typename T>
inline uint32_t two_elements(float first, float second) {
  return store_from_compute<T>(first).bits | uint32_t{store_from_compute<T>(second).bits} << 16;
}

template <typename T>
inline float element_of(uint32_t word, int which) {
  return load_as_compute(T{static_cast<uint16_t>(word >> (16 * which))});
}

template <typename T>
inline void multiply_add(float (&sums)[4], const uint32_t (&left)[4], uint32_t right0,
                         uint32_t right1) {
  const int lane = static_cast<int>(emulator::lane()), row = lane / 4, column = lane % 4 * 2;
  const uint64_t upper = left[0] | uint64_t{left[2]} << 32,
                 lower = left[1] | uint64_t{left[3]} << 32;
  const uint64_t right = right0 | uint64_t{right1} << 32;
  float a[2][16], b[2][16];
  for (int t = 0; t < 4; ++t) {
    const uint64_t rows[2] = {__shfl_sync(kAllLanes, upper, row * 4 + t),
                              __shfl_sync(kAllLanes, lower, row * 4 + t)};
    const uint64_t columns[2] = {__shfl_sync(kAllLanes, right, column * 4 + t),
                                 __shfl_sync(kAllLanes, right, column * 4 + 4 + t)};
    for (int i = 0; i < 2; ++i) {
      for (int half = 0; half < 2; ++half) {
        for (int which = 0; which < 2; ++which) {
          const int k = 8 * half + 2 * t + which;
          a[i][k] = element_of<T>(static_cast<uint32_t>(rows[i] >> (32 * half)), which);
          b[i][k] = element_of<T>(static_cast<uint32_t>(columns[i] >> (32 * half)), which);
        }
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += a[i / 2][k] * b[i % 2][k];
    sums[i] += sum;
  }
}

template <typename T, bool transposed>
inline void load_four(uint32_t (&words)[4], const T* row) {
  const int lane = static_cast<int>(emulator::lane());
  for (int m = 0; m < 4; ++m) {
    uint16_t halves[2];
    for (int which = 0; which < 2; ++which) {
      const int from = transposed ? lane % 4 * 2 + which : lane / 4;
      const T* at = __shfl_sync(kAllLanes, row, 8 * m + from);
      std::memcpy(&halves[which], at + (transposed ? lane / 4 : lane % 4 * 2 + which),
                  sizeof(uint16_t));
    }
    words[m] = halves[0] | uint32_t{halves[1]} << 16;
  }
}

inline float power_of_two(float x) { return std::exp2(x); }

inline void copy_async(void* shared, const void* global, bool there) {
  if (there)
    std::memcpy(shared, global, 16);
  else
    std::memset(shared, 0, 16);
}
inline void end_copies() {}
template <int groups>
inline void await_copies() {}

#else

// Two numbers, rounded to nearest, in a word, the first in the lower half. T is Half or BFloat16.
template <typename T>
__device__ inline uint32_t two_elements(float first, float second) {
  uint32_t word = 0;
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
#endif
  return word;
}

// sums += left * right.
template <typename T>
__device__ inline void multiply_add(float (&sums)[4], const uint32_t (&left)[4], uint32_t right0,
                                    uint32_t right1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
  }
#else
  __trap();  // no older GPU gets here
#endif
}

// Four matrices of 8 rows of 8 elements in shared memory; lane i names the row i % 8 of matrix
// i / 8, at a multiple of 16 bytes. Word m of a lane has (g, 2t..) of matrix m; with `transposed`,
// (2t.., g).
template <typename T, bool transposed>
__device__ inline void load_four(uint32_t (&words)[4], const T* row) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at)
                 : "memory");
  }
#endif
}

// 2^x, with 2 units in the last place; subnormal numbers are zeros.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Begins a copy of 16 bytes from the device's memory to shared memory; zeros if it is not `there`.
__device__ inline void copy_async(void* shared, const void* global, bool there) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(at), "l"(global), "r"(there ? 16 : 0)
               : "memory");
#endif
}
// Ends a group of copies of this thread.
__device__ inline void end_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most so many groups of this thread's copies, the last ones, are not done.
template <int groups>
__device__ inline void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

#endif

}  // namespace leat::cuda
