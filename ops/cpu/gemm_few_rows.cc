#include "ops/cpu/gemm_few_rows.h"

#include "ops/cpu/avx512.h"

#ifdef LEAT_AVX512

#include <algorithm>
#include <array>
#include <utility>

namespace leat {
namespace {

constexpr int64_t kLanesOfSum = 16;
constexpr int kRowsOfFew = 8, kColumnsOfFew = 3;  // of a box: 24 sums, 3 vectors of B and 1 of A
constexpr int64_t kMostFewRows = 64, kLeastFewWeights = int64_t{1} << 20;

// The sum of the lanes, in a tree of halves.
LEAT_AVX512_INLINE float sum_of_lanes(__m512 lanes) {
  alignas(64) float all[kLanesOfSum];
  _mm512_store_ps(all, lanes);
  const __m256 eight = _mm256_add_ps(_mm256_load_ps(all), _mm256_load_ps(all + 8));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Multiplies R rows of A by C rows of B over `depth` steps of k, and adds the results to those of
// the blocks before, or writes them with `first`.
template <int R, int C>
LEAT_AVX512 void multiply_few(const onednn::Gemm& g, const float* a, const float* b, int64_t depth,
                              float* c, bool first) {
  __m512 sums[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int j = 0; j < C; ++j) sums[r][j] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < depth; k += kLanesOfSum) {
    const int64_t left = std::min(kLanesOfSum, depth - k);
    const auto mask = static_cast<__mmask16>((uint32_t{1} << left) - 1);
    __m512 of_b[C];
#pragma GCC unroll 3
    for (int j = 0; j < C; ++j) of_b[j] = _mm512_maskz_loadu_ps(mask, b + j * g.ldb + k);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512 of_a = _mm512_maskz_loadu_ps(mask, a + r * g.lda + k);
#pragma GCC unroll 3
      for (int j = 0; j < C; ++j) sums[r][j] = _mm512_fmadd_ps(of_a, of_b[j], sums[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int j = 0; j < C; ++j) {
      const float sum = sum_of_lanes(sums[r][j]);
      float& to = c[r * g.ldc + j];
      to = first ? sum : to + sum;
    }
  }
}

using MultiplyFew = void (*)(const onednn::Gemm&, const float*, const float*, int64_t, float*,
                             bool);

// multiply_few() by its number of rows - 1.
template <int C, int... R>
constexpr std::array<MultiplyFew, kRowsOfFew> few_boxes_of(std::integer_sequence<int, R...>) {
  return {multiply_few<R + 1, C>...};
}
constexpr auto kFewByOne = few_boxes_of<1>(std::make_integer_sequence<int, kRowsOfFew>());
constexpr auto kFewByAll =
    few_boxes_of<kColumnsOfFew>(std::make_integer_sequence<int, kRowsOfFew>());

}  // namespace

bool few_rows_gemm_fits(const onednn::Gemm& whole) {
  return has_avx512() && !whole.trans_a && whole.trans_b && whole.m <= kMostFewRows &&
         whole.n * whole.k > kLeastFewWeights;
}

// All rows of A meet a few rows of B, which stay in the level 1 cache, before the next ones.
void few_rows_gemm(const onednn::Gemm& g, const float* a, const float* b, float* c) {
  for (int64_t k = 0; k < g.k; k += kFewRowsDepth) {
    const int64_t depth = std::min(kFewRowsDepth, g.k - k);
    for (int64_t column = 0; column < g.n;) {
      const bool all = g.n - column >= kColumnsOfFew;
      for (int64_t row = 0; row < g.m; row += kRowsOfFew) {
        const auto rows = static_cast<size_t>(std::min<int64_t>(kRowsOfFew, g.m - row));
        (all ? kFewByAll : kFewByOne)[rows - 1](g, a + row * g.lda + k, b + column * g.ldb + k,
                                                depth, c + row * g.ldc + column, k == 0);
      }
      column += all ? kColumnsOfFew : 1;
    }
  }
}

}  // namespace leat

#else

namespace leat {
bool few_rows_gemm_fits(const onednn::Gemm&) { return false; }
void few_rows_gemm(const onednn::Gemm&, const float*, const float*, float*) {}
}  // namespace leat

#endif
