// A weight w has 22 bits behind the point. With AVX2 a product of 8-bit pixels and weights is that
// of two halves, w = upper x 2^11 + lower, each of 16 bits: one instruction multiplies pairs of
// them and adds the two products. The sums are integers modulo 2^32, so their order is free, and
// the result is that of the plain loop.
#include "ops/images/resize_rows.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define LEAT_AVX2 __attribute__((target("avx2")))
#endif

namespace leat {
namespace {

constexpr int32_t kHalf = 1 << (kResizePrecision - 1);

uint8_t to_byte(uint32_t sum) {
  return static_cast<uint8_t>(
      std::clamp(static_cast<int32_t>(sum) >> kResizePrecision, int32_t{0}, int32_t{255}));
}

#if defined(__x86_64__)

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

// Rows of three channels. Four pixels at a time are 12 bytes r0 g0 b0 r1 ..., which become pairs of
// 16 bits: (r0 r1) (g0 g1) (b0 b1) 0 in one half of a register, and those of pixels 2 and 3 in the
// other.
LEAT_AVX2 void resize_rgb_row(const uint8_t* in, const ResizeWeights& weights, int64_t width,
                              uint8_t* out) {
  const __m256i pairs =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                       -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  // The weights of pixels 0 and 1 for one half, and of 2 and 3 for the other.
  const __m256i spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const int64_t padded = weights.padded();
  for (int64_t x = 0; x < width; ++x) {
    const auto& window = weights.window(x);
    const int16_t *upper = weights.halves(x), *lower = upper + padded;
    const uint8_t* from = in + int64_t{3} * window.first;
    __m256i high = _mm256_setzero_si256(), low = _mm256_setzero_si256();
    for (int32_t i = 0; i < window.count; i += 4, from += 12) {
      // Pixels behind the window have weights of 0.
      const __m256i pixels = _mm256_shuffle_epi8(
          _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))),
          pairs);
      const __m256i u = _mm256_permutevar8x32_epi32(
          _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(upper + i))),
          spread);
      const __m256i l = _mm256_permutevar8x32_epi32(
          _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lower + i))),
          spread);
      high = _mm256_add_epi32(high, _mm256_madd_epi16(pixels, u));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(pixels, l));
    }
    const __m256i both = _mm256_add_epi32(_mm256_slli_epi32(high, kResizeLowerBits), low);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kResizePrecision);
    sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
    // The fourth byte is the first one of the next pixel, which is written later.
    const int pixel = _mm_cvtsi128_si32(sum);
    std::memcpy(out + 3 * x, &pixel, sizeof pixel);
  }
}

// Two rows a and b at a time: their bytes become pairs (a0 b0) (a1 b1) ... of 16 bits. Returns how
// many bytes of the row are written: a multiple of 16.
LEAT_AVX2 int64_t resize_column_avx2(const ImageView& image, const ResizeWeights& weights,
                                     int64_t y, int64_t bytes, uint8_t* out) {
  const auto& window = weights.window(y);
  const int16_t *upper = weights.halves(y), *lower = upper + weights.padded();
  int64_t x = 0;
  for (; x + 16 <= bytes; x += 16) {
    __m256i high0 = _mm256_setzero_si256(), high1 = high0, low0 = high0, low1 = high0;
    for (int32_t i = 0; i < window.count; i += 2) {
      const uint8_t* a = image.row(window.first + i) + x;
      // A row behind the window has the weight 0; the last row may be the last one of the image.
      const uint8_t* b = i + 1 < window.count ? a + image.stride : a;
      const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a)),
                    second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
      const __m256i pairs0 = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(first, second)),
                    pairs1 = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(first, second));
      int32_t two;
      std::memcpy(&two, upper + i, sizeof two);
      const __m256i u = _mm256_set1_epi32(two);
      std::memcpy(&two, lower + i, sizeof two);
      const __m256i l = _mm256_set1_epi32(two);
      high0 = _mm256_add_epi32(high0, _mm256_madd_epi16(pairs0, u));
      high1 = _mm256_add_epi32(high1, _mm256_madd_epi16(pairs1, u));
      low0 = _mm256_add_epi32(low0, _mm256_madd_epi16(pairs0, l));
      low1 = _mm256_add_epi32(low1, _mm256_madd_epi16(pairs1, l));
    }
    const __m256i half = _mm256_set1_epi32(kHalf);
    const auto settle = [&](__m256i high, __m256i low) LEAT_AVX2 {
      const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kResizeLowerBits), low);
      return _mm256_srai_epi32(_mm256_add_epi32(sum, half), kResizePrecision);
    };
    // Packing works in each half of a register by itself; the permutation undoes that.
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(settle(high0, low0), settle(high1, low1)), 0xd8);
    const __m128i packed =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x), packed);
  }
  return x;
}

#endif

}  // namespace

void resize_row_portable(const uint8_t* in, int64_t channels, const ResizeWeights& weights,
                         int64_t width, uint8_t* out) {
  for (int64_t x = 0; x < width; ++x) {
    const auto& window = weights.window(x);
    const int32_t* w = weights.weights(x);
    for (int64_t c = 0; c < channels; ++c) {
      const uint8_t* from = in + channels * window.first + c;
      uint32_t sum = kHalf;
      for (int32_t i = 0; i < window.count; ++i)
        sum += static_cast<uint32_t>(from[i * channels]) * static_cast<uint32_t>(w[i]);
      out[channels * x + c] = to_byte(sum);
    }
  }
}

void resize_column_portable(const ImageView& image, const ResizeWeights& weights, int64_t y,
                            int64_t bytes, uint8_t* out, int64_t from) {
  const auto& window = weights.window(y);
  const int32_t* w = weights.weights(y);
  // Blocks of sums stay in the cache while row after row is added.
  constexpr int64_t kBlock = 256;
  for (int64_t begin = from; begin < bytes; begin += kBlock) {
    const int64_t count = std::min(kBlock, bytes - begin);
    uint32_t sums[kBlock];
    std::fill_n(sums, count, uint32_t{kHalf});
    for (int32_t i = 0; i < window.count; ++i) {
      const uint8_t* row = image.row(window.first + i) + begin;
      const auto weight = static_cast<uint32_t>(w[i]);
      for (int64_t x = 0; x < count; ++x) sums[x] += row[x] * weight;
    }
    for (int64_t x = 0; x < count; ++x) out[begin + x] = to_byte(sums[x]);
  }
}

void resize_row(const uint8_t* in, int64_t channels, const ResizeWeights& weights, int64_t width,
                uint8_t* out) {
#if defined(__x86_64__)
  if (channels == 3 && has_avx2()) return resize_rgb_row(in, weights, width, out);
#endif
  resize_row_portable(in, channels, weights, width, out);
}

void resize_column(const ImageView& image, const ResizeWeights& weights, int64_t y, int64_t bytes,
                   uint8_t* out) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (has_avx2()) done = resize_column_avx2(image, weights, y, bytes, out);
#endif
  resize_column_portable(image, weights, y, bytes, out, done);
}

void split_row(const uint8_t* in, int64_t width, int64_t channels, bool mirrored, uint8_t* out,
               int64_t plane) {
  for (int64_t c = 0; c < channels; ++c) {
    uint8_t* to = out + c * plane;
    const uint8_t* from = in + c;
    if (mirrored) {
      for (int64_t x = 0; x < width; ++x) to[width - 1 - x] = from[channels * x];
    } else {
      for (int64_t x = 0; x < width; ++x) to[x] = from[channels * x];
    }
  }
}

}  // namespace leat
