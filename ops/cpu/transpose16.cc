#include "ops/cpu/transpose16.h"

#include "ops/cpu/avx512.h"

#ifdef LEAT_AVX512

#include <algorithm>

#include "ops/cpu/prefetch.h"
#include "ops/cpu/transpose_registers.h"

namespace leat {
namespace {

constexpr int64_t kSize = 16;

// From [16, n] to [n, 16]: loads 16 columns of all rows and stores them as 16 rows. A mask keeps
// the loads of the last columns inside of the matrix.
__attribute__((target("avx512f"))) void wide_to_tall(const uint32_t* from, uint32_t* to,
                                                     int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kSize) {
    const int64_t count = std::min(kSize, n - begin);
    const auto inside = static_cast<__mmask16>((uint32_t{1} << count) - 1);
    __m512i r[kSize];
    for (int i = 0; i < kSize; ++i) {
      prefetch_ahead(from + (begin + i) * kSize);  // lines of the blocks that follow
      prefetch_ahead(to + (begin + i) * kSize);
      r[i] = _mm512_maskz_loadu_epi32(inside, from + i * n + begin);
    }
    transpose_registers(r);
    // The complete block has a loop of its own, without a comparison for each store.
    if (count == kSize) {
      for (int i = 0; i < kSize; ++i) _mm512_storeu_si512(to + (begin + i) * kSize, r[i]);
    } else {
      for (int i = 0; i < kSize; ++i) {
        if (i < count) _mm512_storeu_si512(to + (begin + i) * kSize, r[i]);
      }
    }
  }
}

// From [n, 16] to [16, n]. Rows behind the last one count as zeros, which the masked stores leave
// out.
__attribute__((target("avx512f"))) void tall_to_wide(const uint32_t* from, uint32_t* to,
                                                     int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kSize) {
    const int64_t count = std::min(kSize, n - begin);
    const auto inside = static_cast<__mmask16>((uint32_t{1} << count) - 1);
    __m512i r[kSize];
    for (int i = 0; i < kSize; ++i) {
      prefetch_ahead(to + (begin + i) * kSize);
      r[i] = i < count ? _mm512_loadu_si512(from + (begin + i) * kSize) : _mm512_setzero_si512();
    }
    transpose_registers(r);
    for (int i = 0; i < kSize; ++i) _mm512_mask_storeu_epi32(to + i * n + begin, inside, r[i]);
  }
}

// A row of 16 elements of 2 bytes in the lanes of a register, and back.
LEAT_AVX512_INLINE __m512i load_row(const uint16_t* from) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
LEAT_AVX512_INLINE void store_row(uint16_t* to, __m512i row) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(row));
}
LEAT_AVX512_INLINE __m512i load_row(const uint32_t* from) { return _mm512_loadu_si512(from); }
LEAT_AVX512_INLINE void store_row(uint32_t* to, __m512i row) { _mm512_storeu_si512(to, row); }

// Transposes a small block, one element after the other.
template <typename T>
void transpose_part(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows,
                    int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[i * to_row + j] = from[j * from_row + i];
  }
}

// Loads 16 rows, and requests the lines that are `ahead` bytes behind them.
template <typename T>
LEAT_AVX512_INLINE void load_block(const T* block, int64_t from_row, int64_t ahead, __m512i* r) {
  for (int k = 0; k < kSize; ++k) {
    prefetch_ahead(block, ahead);
    r[k] = load_row(block);
    block += from_row;
    // One address, and not one for each row: there are too few registers for 16.
    asm volatile("" : "+r"(block));
  }
}
template <typename T>
LEAT_AVX512_INLINE void transpose_short_block(const T* block, int64_t from_row, int64_t ahead,
                                              T* to, int64_t to_row) {
  __m512i r[kSize];
  load_block(block, from_row, ahead, r);
  transpose_registers(r);
  for (int k = 0; k < kSize; ++k) store_row(to + k * to_row, r[k]);
}
// 32 rows of 16 elements of 2 bytes: a lane has the elements of two rows, one above the other.
LEAT_AVX512_INLINE void transpose_tall_block(const uint16_t* block, int64_t from_row, int64_t ahead,
                                             uint16_t* to, int64_t to_row) {
  __m512i r[kSize], upper[kSize];
  load_block(block, 2 * from_row, ahead, r);
  load_block(block + from_row, 2 * from_row, ahead, upper);
  for (int k = 0; k < kSize; ++k) r[k] = _mm512_or_si512(r[k], _mm512_slli_epi32(upper[k], 16));
  transpose_registers(r);
  for (int k = 0; k < kSize; ++k) _mm512_storeu_si512(to + k * to_row, r[k]);
}

template <typename T>
__attribute__((target("avx512f"))) void transpose_blocks(const T* from, int64_t from_row, T* to,
                                                         int64_t to_row, int64_t rows,
                                                         int64_t columns) {
  // A strip of rows of the result is as high as two lines of the cache have elements, so that each
  // line is read once, and those that processors fetch in pairs together; along the strip, each
  // line of the result is written whole.
  constexpr int64_t kStrip = 2 * 64 / sizeof(T);
  for (int64_t strip = 0; strip < rows; strip += kStrip) {
    const int64_t end = std::min(rows, strip + kStrip);
    int64_t width = kSize;
    for (int64_t j = 0; j < columns; j += width) {
      const bool tall = sizeof(T) == 2 && columns - j >= 2 * kSize;
      width = tall ? 2 * kSize : kSize;
      // Two blocks ahead, if they are there: hardware does not foresee steps as long as a row.
      const bool has_more = columns - j >= 3 * width;
      const int64_t ahead = has_more ? 2 * width * from_row * static_cast<int64_t>(sizeof(T)) : 0;
      for (int64_t i = strip; i < end; i += kSize) {
        const T* block = from + j * from_row + i;
        T* result = to + i * to_row + j;
        if (end - i < kSize || columns - j < kSize) {
          transpose_part(block, from_row, result, to_row, std::min(kSize, end - i),
                         std::min(width, columns - j));
          continue;
        }
        if constexpr (sizeof(T) == 2) {
          if (tall) {
            transpose_tall_block(block, from_row, ahead, result, to_row);
            continue;
          }
        }
        transpose_short_block(block, from_row, ahead, result, to_row);
      }
    }
  }
}

template <typename T>
bool transpose_any(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows,
                   int64_t columns) {
  if (!has_avx512()) return false;
  transpose_blocks(from, from_row, to, to_row, rows, columns);
  return true;
}

}  // namespace

bool transpose_avx512(const uint32_t* from, int64_t from_row, uint32_t* to, int64_t to_row,
                      int64_t rows, int64_t columns) {
  return transpose_any(from, from_row, to, to_row, rows, columns);
}

bool transpose_avx512(const uint16_t* from, int64_t from_row, uint16_t* to, int64_t to_row,
                      int64_t rows, int64_t columns) {
  return transpose_any(from, from_row, to, to_row, rows, columns);
}

bool transpose_16xn_avx512(const uint16_t* from, uint16_t* to, int64_t n) {
  return transpose_any(from, n, to, kSize, n, kSize);
}

bool transpose_nx16_avx512(const uint16_t* from, uint16_t* to, int64_t n) {
  return transpose_any(from, kSize, to, n, kSize, n);
}

bool transpose_16xn_avx512(const uint32_t* from, uint32_t* to, int64_t n) {
  if (!has_avx512()) return false;
  wide_to_tall(from, to, n);
  return true;
}

bool transpose_nx16_avx512(const uint32_t* from, uint32_t* to, int64_t n) {
  if (!has_avx512()) return false;
  tall_to_wide(from, to, n);
  return true;
}

}  // namespace leat

#else

namespace leat {
bool transpose_16xn_avx512(const uint32_t*, uint32_t*, int64_t) { return false; }
bool transpose_nx16_avx512(const uint32_t*, uint32_t*, int64_t) { return false; }
bool transpose_16xn_avx512(const uint16_t*, uint16_t*, int64_t) { return false; }
bool transpose_nx16_avx512(const uint16_t*, uint16_t*, int64_t) { return false; }
bool transpose_avx512(const uint32_t*, int64_t, uint32_t*, int64_t, int64_t, int64_t) {
  return false;
}
bool transpose_avx512(const uint16_t*, int64_t, uint16_t*, int64_t, int64_t, int64_t) {
  return false;
}
}  // namespace leat

#endif
