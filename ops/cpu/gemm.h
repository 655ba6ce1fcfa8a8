// One matrix product on one thread: the tile of MatMul and Gemm. Floats go to oneDNN. Doubles and
// integers go to the plain loops below, which add in the order of k, whatever the tile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/cpu/onednn.h"

namespace leat {

inline constexpr int64_t kGemmDepth = 64;   // of a packed panel of B: k
inline constexpr int64_t kGemmWidth = 256;  // of a packed panel of B: columns

// The scratch memory of each thread that calls gemm<T>.
template <typename T>
constexpr size_t gemm_scratch_bytes() {
  return std::is_same_v<T, float> ? 0 : sizeof(T) * kGemmDepth * kGemmWidth;
}

// Signed integers wrap around as unsigned ones do.
template <typename T, bool = std::is_integral_v<T>>
struct Accumulator {
  using type = T;
};
template <typename T>
struct Accumulator<T, true> {
  using type = std::make_unsigned_t<T>;
};

// Adds a panel of B (depth x width, rows `width` apart) times A's columns [k, k+depth) to C.
template <typename U, typename T>
void multiply_panel(const onednn::Gemm& g, const T* a, const U* panel, int64_t k, int64_t depth,
                    int64_t width, T* c) {
  for (int64_t i = 0; i < g.m; ++i) {
    U* row = reinterpret_cast<U*>(c + i * g.ldc);
    for (int64_t p = 0; p < depth; ++p) {
      const U factor = static_cast<U>(g.trans_a ? a[(k + p) * g.lda + i] : a[i * g.lda + k + p]);
      const U* from = panel + p * width;
      for (int64_t j = 0; j < width; ++j) row[j] += factor * from[j];
    }
  }
}

// C = op(A) * op(B) for the types that oneDNN lacks. The caller applies alpha.
template <typename T>
void plain_gemm(const onednn::Gemm& g, const T* a, const T* b, T* c, std::byte* scratch) {
  using U = typename Accumulator<T>::type;
  for (int64_t i = 0; i < g.m; ++i) std::fill_n(c + i * g.ldc, g.n, T{});
  U* panel = reinterpret_cast<U*>(scratch);
  for (int64_t j = 0; j < g.n; j += kGemmWidth) {
    const int64_t width = std::min(kGemmWidth, g.n - j);
    for (int64_t k = 0; k < g.k; k += kGemmDepth) {
      const int64_t depth = std::min(kGemmDepth, g.k - k);
      for (int64_t p = 0; p < depth; ++p) {
        for (int64_t q = 0; q < width; ++q) {
          panel[p * width + q] =
              static_cast<U>(g.trans_b ? b[(j + q) * g.ldb + k + p] : b[(k + p) * g.ldb + j + q]);
        }
      }
      multiply_panel<U>(g, a, panel, k, depth, width, c + j);
    }
  }
}

// C = op(A) * op(B), which overwrites C; for k == 0, C is zero. It returns false if oneDNN refuses.
// `scratch`: gemm_scratch_bytes<T>() bytes.
template <typename T>
bool gemm(const onednn::Gemm& g, const T* a, const T* b, T* c, std::byte* scratch) {
  if (g.m == 0 || g.n == 0) return true;
  if constexpr (std::is_same_v<T, float>) {
    if (g.k > 0) return onednn::sgemm(g, a, b, c);
  }
  plain_gemm(g, a, b, c, scratch);
  return true;
}

}  // namespace leat
