#include "ops/cpu/winograd.h"

#include "ops/cpu/avx512.h"

#ifdef LEAT_AVX512

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace leat::winograd {
namespace {

// The powers of 3/4 and 3/2 that occur here have few binary digits, so these constants are exact.
constexpr float kA = 0.75f, kA2 = kA * kA, kA3 = kA2 * kA;  // the points +-a, +-b
constexpr float kB = 1.5f, kB2 = kB * kB, kB3 = kB2 * kB;

LEAT_AVX512_INLINE __m512 scaled(float factor, __m512 x) {
  return _mm512_mul_ps(_mm512_set1_ps(factor), x);
}
LEAT_AVX512_INLINE __m512 add_scaled(float factor, __m512 x, __m512 to) {
  return _mm512_fmadd_ps(_mm512_set1_ps(factor), x, to);
}

// Both points of a pair +-p: even +- odd.
LEAT_AVX512_INLINE void pair(__m512 even, __m512 odd, __m512& plus, __m512& minus) {
  plus = _mm512_add_ps(even, odd);
  minus = _mm512_sub_ps(even, odd);
}

// B^T d: six inputs at the six points. For a pair of points +-p, the even part and the odd part of
// the sum are computed once.
LEAT_AVX512_INLINE void at_points(const __m512* d, __m512* t) {
  const __m512 even_a = add_scaled(-kB2, d[2], d[4]), odd_a = add_scaled(-kB2, d[1], d[3]);
  const __m512 even_b = add_scaled(-kA2, d[2], d[4]), odd_b = add_scaled(-kA2, d[1], d[3]);
  t[0] = add_scaled(kA2 * kB2, d[0], add_scaled(-(kA2 + kB2), d[2], d[4]));
  t[1] = add_scaled(kA, odd_a, even_a);
  t[2] = add_scaled(-kA, odd_a, even_a);
  t[3] = add_scaled(kB, odd_b, even_b);
  t[4] = add_scaled(-kB, odd_b, even_b);
  t[5] = add_scaled(kA2 * kB2, d[1], add_scaled(-(kA2 + kB2), d[3], d[5]));
}

// A^T m: four outputs of six points. Output i is the sum over the points p of m * p^i; the point at
// infinity counts for the last one only.
LEAT_AVX512_INLINE void from_points(const __m512* m, __m512* y) {
  __m512 sum_a, difference_a, sum_b, difference_b;
  pair(m[1], m[2], sum_a, difference_a);
  pair(m[3], m[4], sum_b, difference_b);
  y[0] = _mm512_add_ps(_mm512_add_ps(m[0], sum_a), sum_b);
  y[1] = add_scaled(kB, difference_b, scaled(kA, difference_a));
  y[2] = add_scaled(kB2, sum_b, scaled(kA2, sum_a));
  y[3] = _mm512_add_ps(add_scaled(kB3, difference_b, scaled(kA3, difference_a)), m[5]);
}

// The divisors of the rows of G: for each point, the product of its differences to the others.
constexpr double square(double x) { return x * x; }
constexpr float kAt0 = static_cast<float>(1 / square(double{kA} * kB)),
                kAtA = static_cast<float>(1 / (2 * square(kA) * (square(kA) - square(kB)))),
                kAtB = static_cast<float>(1 / (2 * square(kB) * (square(kB) - square(kA))));

// G g: three weights at the six points.
LEAT_AVX512_INLINE void weights_at_points(const __m512* g, __m512* t) {
  t[0] = scaled(kAt0, g[0]);
  pair(scaled(kAtA, add_scaled(kA2, g[2], g[0])), scaled(kAtA * kA, g[1]), t[1], t[2]);
  pair(scaled(kAtB, add_scaled(kB2, g[2], g[0])), scaled(kAtB * kB, g[1]), t[3], t[4]);
  t[5] = g[2];
}

// A y: four gradients of outputs at the six points.
LEAT_AVX512_INLINE void gradients_at_points(const __m512* y, __m512* t) {
  t[0] = y[0];
  pair(add_scaled(kA2, y[2], y[0]), add_scaled(kA3, y[3], scaled(kA, y[1])), t[1], t[2]);
  pair(add_scaled(kB2, y[2], y[0]), add_scaled(kB3, y[3], scaled(kB, y[1])), t[3], t[4]);
  t[5] = y[3];
}

// G^T m: three gradients of weights.
LEAT_AVX512_INLINE void weights_from_points(const __m512* m, __m512* g) {
  __m512 sum_a, difference_a, sum_b, difference_b;
  pair(m[1], m[2], sum_a, difference_a);
  pair(m[3], m[4], sum_b, difference_b);
  g[0] = add_scaled(kAtB, sum_b, add_scaled(kAtA, sum_a, scaled(kAt0, m[0])));
  g[1] = add_scaled(kAtB * kB, difference_b, scaled(kAtA * kA, difference_a));
  g[2] = add_scaled(kAtB * kB2, sum_b, add_scaled(kAtA * kA2, sum_a, m[5]));
}

// The offsets of 16 lanes that are `stride` floats apart, for gathers and scatters. They are 32-bit
// numbers, which is why winograd_fits() limits the area.
LEAT_AVX512_INLINE __m512i lanes_apart(int64_t stride) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_mullo_epi32(lanes, _mm512_set1_epi32(static_cast<int>(stride)));
}

// Blocked, the 16 channels are one vector in memory; plain, they are gathered one by one.
template <bool blocked>
LEAT_AVX512_INLINE __m512 load(const float* from, __m512i lanes) {
  if (blocked) return _mm512_loadu_ps(from);
  // This has a mask, because the form without one causes a warning about an unset variable in GCC's
  // own header.
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), __mmask16(0xffff), lanes, from,
                                  sizeof(float));
}
template <bool blocked>
LEAT_AVX512_INLINE void store(float* to, __m512i lanes, __m512 x) {
  if (blocked)
    _mm512_storeu_ps(to, x);
  else
    _mm512_i32scatter_ps(to, lanes, x, sizeof(float));
}

// The transform of one row or column: of 6 inputs, or of 4 gradients of outputs.
template <int size>
LEAT_AVX512_INLINE void line_at_points(const __m512* d, __m512* t) {
  if (size == kPatch)
    at_points(d, t);
  else
    gradients_at_points(d, t);
}

// Transforms a square of inputs (6x6) or of gradients of outputs (4x4) to the points. The transform
// is applied to the columns, and then to the rows of the result. `total` takes the sums of the
// gradients for the bias, or is null.
template <bool blocked, int size>
LEAT_AVX512 void square_at_points(const float* x, const Plane& plane, int64_t blocks, int64_t row,
                                  int64_t column, float* to, int64_t points, float* total) {
  const __m512i lanes = lanes_apart(plane.channel);
  const int64_t pitch = plane.width * plane.pixel;
  // The part of the square inside of the image; elements outside count as zero.
  const int64_t top = std::max<int64_t>(0, -row), left = std::max<int64_t>(0, -column);
  const int64_t bottom = std::min<int64_t>(size, plane.height - row),
                right = std::min<int64_t>(size, plane.width - column);
  const float* from = x + row * pitch + column * plane.pixel;
  for (int64_t b = 0; b < blocks; ++b, from += plane.block(), to += kLanes) {
    __m512 half[kPatch][size], sum = _mm512_setzero_ps();
    for (int64_t j = 0; j < size; ++j) {
      __m512 d[size], t[kPatch];
      const bool inside = j >= left && j < right;
#pragma GCC unroll 6
      for (int64_t i = 0; i < size; ++i) {
        d[i] = inside && i >= top && i < bottom
                   ? load<blocked>(from + i * pitch + j * plane.pixel, lanes)
                   : _mm512_setzero_ps();
        if (size == kTile) sum = _mm512_add_ps(sum, d[i]);
      }
      line_at_points<size>(d, t);
#pragma GCC unroll 6
      for (int i = 0; i < kPatch; ++i) half[i][j] = t[i];
    }
    // The sums of a tile are added to those of the tiles before it: the order is that of the tiles.
    if (total) {
      _mm512_storeu_ps(total, _mm512_add_ps(_mm512_loadu_ps(total), sum));
      total += kLanes;
    }
    for (int i = 0; i < kPatch; ++i) {
      __m512 t[kPatch];
      line_at_points<size>(half[i], t);
#pragma GCC unroll 6
      for (int j = 0; j < kPatch; ++j) _mm512_storeu_ps(to + (i * kPatch + j) * points, t[j]);
    }
  }
}

// Transforms the sums of a tile to its outputs: first the columns of the 6x6 points, then the rows.
template <bool blocked>
LEAT_AVX512 void outputs(const float* from, int64_t points, float* y, const Plane& plane,
                         int64_t blocks, int64_t row, int64_t column, const float* bias,
                         bool relu) {
  // With Relu, outputs are at least 0. Without it, the bound changes nothing.
  const __m512 least = _mm512_set1_ps(relu ? 0.0f : -std::numeric_limits<float>::infinity());
  const __m512i lanes = lanes_apart(plane.channel);
  const int64_t rows = std::min<int64_t>(kTile, plane.height - row),
                columns = std::min<int64_t>(kTile, plane.width - column);
  float* to = y + (row * plane.width + column) * plane.pixel;
  for (int64_t b = 0; b < blocks; ++b, from += kLanes, to += plane.block()) {
    const __m512 added = bias ? _mm512_loadu_ps(bias + b * kLanes) : _mm512_setzero_ps();
    __m512 half[kTile][kPatch];
    for (int j = 0; j < kPatch; ++j) {
      __m512 m[kPatch], t[kTile];
#pragma GCC unroll 6
      for (int i = 0; i < kPatch; ++i) m[i] = _mm512_loadu_ps(from + (i * kPatch + j) * points);
      from_points(m, t);
#pragma GCC unroll 4
      for (int i = 0; i < kTile; ++i) half[i][j] = t[i];
    }
    for (int64_t i = 0; i < rows; ++i) {
      __m512 t[kTile];
      from_points(half[i], t);
#pragma GCC unroll 4
      for (int64_t j = 0; j < kTile; ++j) {
        if (j >= columns) break;
        store<blocked>(to + (i * plane.width + j) * plane.pixel, lanes,
                       _mm512_max_ps(least, _mm512_add_ps(t[j], added)));  // NaN stays
      }
    }
  }
}

// Computes a block of c: R rows and 16 * N columns, which stay in registers. It also prefetches
// depth * 16 floats of the next operands.
template <int R, int N>
LEAT_AVX512 void block(const Product& p, const float* a, const float* b, const float* next,
                       float* c) {
  // Each element of c is one sum in the order of k, whatever the size of its block is.
  __m512 sums[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      sums[r][n] = p.add ? _mm512_loadu_ps(c + r * p.c_row + n * kLanes) : _mm512_setzero_ps();
    }
  }
  for (int64_t k = 0; k < p.depth; ++k, a += p.a_depth, b += p.b_depth, next += kLanes) {
    // One line of the next operands for each k goes to the level 2 cache.
    _mm_prefetch(next, _MM_HINT_T1);
    __m512 columns[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) columns[n] = _mm512_loadu_ps(b + n * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m512 factor = _mm512_set1_ps(a[r * p.a_row]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sums[r][n] = _mm512_fmadd_ps(factor, columns[n], sums[r][n]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) _mm512_storeu_ps(c + r * p.c_row + n * kLanes, sums[r][n]);
  }
}

using Block = void (*)(const Product&, const float*, const float*, const float*, float*);

// Blocks of N vectors of columns and 1, 2, ... rows: as many rows as leave registers for a row of b
// and an element of a.
template <int N>
constexpr int kMostRows = N == 1 ? 14 : (32 - 1 - N) / N;
template <int N, int... R>
constexpr std::array<Block, sizeof...(R)> blocks_of(std::integer_sequence<int, R...>) {
  return {block<R + 1, N>...};
}
// Multiplies all rows with 16 * N columns. The rows are divided evenly into blocks, so that the
// last block is not much smaller than the others.
template <int N>
void multiply_columns(const Product& p, const float* a, const float* b, const float* next,
                      float* c) {
  static constexpr auto kBlocks = blocks_of<N>(std::make_integer_sequence<int, kMostRows<N>>());
  const int64_t blocks = (p.rows + kMostRows<N> - 1) / kMostRows<N>;
  for (int64_t i = 0, row = 0; i < blocks; ++i) {
    const int64_t rows = (p.rows - row) / (blocks - i);
    // N neighbouring blocks together prefetch the whole panel that follows.
    kBlocks[static_cast<size_t>(rows - 1)](p, a + row * p.a_row, b, next + i % N * p.depth * kLanes,
                                           c + row * p.c_row);
    row += rows;
  }
}

}  // namespace

bool available() { return has_avx512(); }

void transform_patch(const float* x, const Plane& plane, int64_t blocks, int64_t row,
                     int64_t column, float* to, int64_t points) {
  (plane.channel == 1
       ? square_at_points<true, kPatch>
       : square_at_points<false, kPatch>)(x, plane, blocks, row, column, to, points, nullptr);
}

void transform_gradients(const float* dy, const Plane& plane, int64_t blocks, int64_t row,
                         int64_t column, float* to, int64_t points, float* bias) {
  (plane.channel == 1
       ? square_at_points<true, kTile>
       : square_at_points<false, kTile>)(dy, plane, blocks, row, column, to, points, bias);
}

void transform_outputs(const float* from, int64_t points, float* y, const Plane& plane,
                       int64_t blocks, int64_t row, int64_t column, const float* bias, bool relu) {
  (plane.channel == 1 ? outputs<true> : outputs<false>)(from, points, y, plane, blocks, row, column,
                                                        bias, relu);
}

// 16 kernels that lie `kernel` floats apart are gathered. Rotated kernels are those of
// backward-data.
LEAT_AVX512 void transform_kernels(const float* w, int64_t kernel, bool rotated, float* to,
                                   int64_t points) {
  const __m512i lanes = lanes_apart(kernel);
  __m512 half[kPatch][kKernel];
  for (int j = 0; j < kKernel; ++j) {
    __m512 g[kKernel], t[kPatch];
    for (int i = 0; i < kKernel; ++i) {
      const int at = i * kKernel + j;
      g[i] = load<false>(w + (rotated ? 8 - at : at), lanes);
    }
    weights_at_points(g, t);
    for (int i = 0; i < kPatch; ++i) half[i][j] = t[i];
  }
  for (int i = 0; i < kPatch; ++i) {
    __m512 t[kPatch];
    weights_at_points(half[i], t);
    for (int j = 0; j < kPatch; ++j) _mm512_storeu_ps(to + (i * kPatch + j) * points, t[j]);
  }
}

LEAT_AVX512 void transform_weights(const float* from, int64_t points, float* dw) {
  __m512 half[kKernel][kPatch];
  for (int j = 0; j < kPatch; ++j) {
    __m512 m[kPatch], g[kKernel];
    for (int i = 0; i < kPatch; ++i) m[i] = _mm512_loadu_ps(from + (i * kPatch + j) * points);
    weights_from_points(m, g);
    for (int i = 0; i < kKernel; ++i) half[i][j] = g[i];
  }
  for (int i = 0; i < kKernel; ++i) {
    __m512 g[kKernel];
    weights_from_points(half[i], g);
    for (int j = 0; j < kKernel; ++j) _mm512_storeu_ps(dw + (i * kKernel + j) * kLanes, g[j]);
  }
}

void multiply(const Product& p, const float* a, const float* b, const float* next, float* c) {
  // Panels of 64 columns, and one narrower panel for the rest.
  int64_t n = 0;
  for (; n + 4 * kLanes <= p.columns; n += 4 * kLanes)
    multiply_columns<4>(p, a, b + n, next + n * p.depth, c + n);
  const int64_t rest = (p.columns - n) / kLanes;
  if (rest == 3) multiply_columns<3>(p, a, b + n, next + n * p.depth, c + n);
  if (rest == 2) multiply_columns<2>(p, a, b + n, next + n * p.depth, c + n);
  if (rest == 1) multiply_columns<1>(p, a, b + n, next + n * p.depth, c + n);
}

}  // namespace leat::winograd

#else

namespace leat::winograd {

bool available() { return false; }
void transform_patch(const float*, const Plane&, int64_t, int64_t, int64_t, float*, int64_t) {}
void transform_outputs(const float*, int64_t, float*, const Plane&, int64_t, int64_t, int64_t,
                       const float*, bool) {}
void transform_gradients(const float*, const Plane&, int64_t, int64_t, int64_t, float*, int64_t,
                         float*) {}
void transform_kernels(const float*, int64_t, bool, float*, int64_t) {}
void transform_weights(const float*, int64_t, float*) {}
void multiply(const Product&, const float*, const float*, const float*, float*) {}

}  // namespace leat::winograd

#endif
