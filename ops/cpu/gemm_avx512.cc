#include "ops/cpu/gemm_avx512.h"

#include "ops/cpu/avx512.h"

#ifdef LEAT_AVX512

#include <algorithm>
#include <array>
#include <utility>

#include "ops/cpu/convert16.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/cpu/transpose_registers.h"

namespace leat {
namespace {

constexpr int64_t kDepth = 256;      // of a block of k
constexpr int64_t kStride = 272;     // of a row of A in the scratch memory: no multiple of 4 KiB
constexpr int64_t kPanelWidth = 32;  // of a panel of B: 32 KiB in all, in the level 1 cache
constexpr int kRows = 12;            // of the box in registers: 24 sums, 2 of B and 1 of A
constexpr int64_t kVector = 16;

// 16 elements as floats.
LEAT_AVX512_INLINE __m512 load16(const float* x) { return _mm512_loadu_ps(x); }
LEAT_AVX512_INLINE __m512 load16(const BFloat16* x) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
LEAT_AVX512_INLINE __m512 load16(const Half* x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}

// Transposes `rows` by `columns` elements: to[j * to_row + i] = from[i * from_row + j], as floats.
template <typename T>
LEAT_AVX512 void transpose_to_floats(const T* from, int64_t from_row, float* to, int64_t to_row,
                                     int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; j += kVector) {
    for (int64_t i = 0; i < rows; i += kVector) {
      const T* block = from + i * from_row + j;
      float* result = to + j * to_row + i;
      if (rows - i < kVector || columns - j < kVector) {
        for (int64_t q = 0; q < std::min(kVector, columns - j); ++q) {
          for (int64_t p = 0; p < std::min(kVector, rows - i); ++p)
            result[q * to_row + p] = elementwise::load(block[p * from_row + q]);
        }
        continue;
      }
      __m512i r[kVector];
      for (int p = 0; p < kVector; ++p) r[p] = _mm512_castps_si512(load16(block + p * from_row));
      transpose_registers(r);
      for (int q = 0; q < kVector; ++q)
        _mm512_storeu_ps(result + q * to_row, _mm512_castsi512_ps(r[q]));
    }
  }
}

// Copies `rows` lines of `columns` elements as floats.
template <typename T>
LEAT_AVX512 void copy_to_floats(const T* from, int64_t from_row, float* to, int64_t to_row,
                                int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* line = from + i * from_row;
    float* result = to + i * to_row;
    int64_t j = 0;
    for (; j + kVector <= columns; j += kVector) _mm512_storeu_ps(result + j, load16(line + j));
    for (; j < columns; ++j) result[j] = elementwise::load(line[j]);
  }
}

// Computes R rows by V vectors of C for `depth` steps of k: a is [R, kStride], b [depth,
// kPanelWidth]. `mask` has the columns of the last vector. With `adds`, C has the sum of the blocks
// before.
template <int R, int V>
LEAT_AVX512 void multiply_box(const float* a, const float* b, int64_t depth, float* c, int64_t ldc,
                              __mmask16 mask, bool adds) {
  __m512 sums[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < depth; ++k) {
    __m512 of_b[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) of_b[v] = _mm512_load_ps(b + k * kPanelWidth + v * kVector);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const __m512 of_a = _mm512_set1_ps(a[r * kStride + k]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[r][v] = _mm512_fmadd_ps(of_a, of_b[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      float* to = c + r * ldc + v * kVector;
      const __mmask16 columns = v + 1 < V ? static_cast<__mmask16>(0xffff) : mask;
      if (adds) sums[r][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(columns, to), sums[r][v]);
      _mm512_mask_storeu_ps(to, columns, sums[r][v]);
    }
  }
}

using MultiplyBox = void (*)(const float*, const float*, int64_t, float*, int64_t, __mmask16, bool);

// multiply_box() by its number of rows - 1.
template <int V, int... R>
constexpr std::array<MultiplyBox, kRows> boxes_of(std::integer_sequence<int, R...>) {
  return {multiply_box<R + 1, V>...};
}
constexpr auto kOneVector = boxes_of<1>(std::make_integer_sequence<int, kRows>());
constexpr auto kTwoVectors = boxes_of<2>(std::make_integer_sequence<int, kRows>());

// Multiplies the rows of A in the scratch memory by one panel of B.
void multiply_panel_of_b(const float* a, const float* b, int64_t rows, int64_t columns,
                         int64_t depth, float* c, int64_t ldc, bool adds) {
  const auto& box = columns > kVector ? kTwoVectors : kOneVector;
  const int64_t last = columns > kVector ? columns - kVector : columns;
  const auto mask = static_cast<__mmask16>((uint32_t{1} << last) - 1);
  for (int64_t row = 0; row < rows; row += kRows) {
    const auto count = static_cast<size_t>(std::min<int64_t>(kRows, rows - row));
    box[count - 1](a + row * kStride, b, depth, c + row * ldc, ldc, mask, adds);
  }
}

template <typename T>
void packed_gemm_of(const onednn::Gemm& g, const T* a, const T* b, float* c, std::byte* scratch) {
  auto* panel = reinterpret_cast<float*>(scratch);
  float* rows = panel + kDepth * kPanelWidth;
  for (int64_t k = 0; k < g.k; k += kDepth) {
    const int64_t depth = std::min(kDepth, g.k - k);
    if (g.trans_a)
      transpose_to_floats(a + k * g.lda, g.lda, rows, kStride, depth, g.m);
    else
      copy_to_floats(a + k, g.lda, rows, kStride, g.m, depth);
    for (int64_t column = 0; column < g.n; column += kPanelWidth) {
      const int64_t columns = std::min(kPanelWidth, g.n - column);
      // The box reads whole vectors; the columns behind the last one are not stored.
      if (columns % kVector != 0) std::fill_n(panel, depth * kPanelWidth, 0.0f);
      if (g.trans_b)
        transpose_to_floats(b + column * g.ldb + k, g.ldb, panel, kPanelWidth, columns, depth);
      else
        copy_to_floats(b + k * g.ldb + column, g.ldb, panel, kPanelWidth, depth, columns);
      multiply_panel_of_b(rows, panel, g.m, columns, depth, c + column, g.ldc, k > 0);
    }
  }
}

}  // namespace

size_t packed_gemm_scratch_bytes(int64_t rows) {
  return static_cast<size_t>(kDepth * kPanelWidth + rows * kStride) * sizeof(float);
}

bool has_packed_gemm() { return has_avx512(); }

void packed_gemm(const onednn::Gemm& g, DType type, const void* a, const void* b, float* c,
                 std::byte* scratch) {
  if (g.k == 0) {
    for (int64_t i = 0; i < g.m; ++i) std::fill_n(c + i * g.ldc, g.n, 0.0f);
    return;
  }
  const auto multiply = [&](auto zero) {
    using T = decltype(zero);
    packed_gemm_of(g, static_cast<const T*>(a), static_cast<const T*>(b), c, scratch);
  };
  if (type == DType::f32)
    multiply(float{});
  else if (type == DType::f16)
    multiply(Half{});
  else
    multiply(BFloat16{});
}

}  // namespace leat

#else

namespace leat {
size_t packed_gemm_scratch_bytes(int64_t) { return 0; }
bool has_packed_gemm() { return false; }
void packed_gemm(const onednn::Gemm&, DType, const void*, const void*, float*, std::byte*) {}
}  // namespace leat

#endif
