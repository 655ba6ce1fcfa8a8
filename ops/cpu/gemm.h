// One matrix product on one thread: the tile of MatMul and Gemm. Floats go to oneDNN. Doubles and
// integers go to the plain loops below, which add in the order of k, whatever the tile.
//
// Matrices are row-major. op(A) is [m, k]: A itself with rows lda apart, or, with trans_a, the
// transpose of a [k, m] matrix with rows lda apart; the same holds for B, whose op(B) is [k, n]. C
// is [m, n] with rows ldc apart. C must overlap neither A nor B.
//
//   onednn::Gemm g{.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n};
//   if (!gemm<double>(g, a, b, c, scratch)) return Progress::failed;
//
// Threads: any, each with a scratch memory and a C of its own. Determinism: with the plain loops
// each element of C is one sum in the order of k, which begins with 0. oneDNN's bits depend on the
// size of the call, too; matmul_kernel.cc chooses and pads its calls accordingly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/cpu/onednn.h"

namespace leat {

// The panel of op(B) that the plain loops copy and use for all rows of A: 64 x 256 doubles are 128
// KiB, a part of the level 2 cache. The results do not depend on these sizes.
inline constexpr int64_t kGemmDepth = 64;   // of a packed panel of B: k
inline constexpr int64_t kGemmWidth = 256;  // of a packed panel of B: columns

// The scratch memory in bytes of each thread that calls gemm<T>, for any sizes; 0 for float, whose
// scratch pointer may be null. It must be aligned for T.
template <typename T>
constexpr size_t gemm_scratch_bytes() {
  return std::is_same_v<T, float> ? 0 : sizeof(T) * kGemmDepth * kGemmWidth;
}

// The type in which the plain loops compute. Integers use the unsigned type of their width, so that
// signed sums wrap around without undefined behaviour; the bits of the result are the same. double
// stays double.
template <typename T, bool = std::is_integral_v<T>>
struct Accumulator {
  using type = T;
};
template <typename T>
struct Accumulator<T, true> {
  using type = std::make_unsigned_t<T>;
};

// Adds A's columns [k, k + depth) times a panel of op(B) (depth x width, rows `width` apart) to the
// m x width part of C at `c`. `a` is the whole matrix. The loop over p is outside of the one over
// j, so each element adds its products in the order of k, and the inner loop vectorizes.
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

// C = op(A) * op(B) for the types that oneDNN lacks. It ignores g.alpha: the caller scales C
// afterwards. No product is skipped, so a NaN or an infinity in A meets every element of its row,
// zeros in B included. `scratch` has gemm_scratch_bytes<T>() bytes; it is not touched if k == 0.
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

// C = op(A) * op(B), which overwrites C (its old contents are not read); for k == 0, C is zero.
// Floats are also multiplied by g.alpha, inside of oneDNN; for all other types the caller applies
// alpha. m == 0 or n == 0 does nothing. It returns false if oneDNN refuses, and C is undefined
// then; the plain loops cannot fail. `scratch`: gemm_scratch_bytes<T>() bytes.
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
