// The transpose of 16 by 16 elements of 4 bytes in registers, for functions with LEAT_AVX512.
#pragma once

#include "ops/cpu/avx512.h"

#ifdef LEAT_AVX512

namespace leat {

// Each step exchanges elements at twice the distance of the step before: elements, pairs, lanes of
// four, pairs of lanes.
LEAT_AVX512_INLINE void transpose_registers(__m512i* r) {
  __m512i t[16];
  // Two rows are interleaved element by element: each lane of 4 then has two elements of both rows.
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // r[i + c]: column c of each lane's 4x4 block
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // The rest moves whole lanes: for each c, r[c], r[c + 4], r[c + 8] and r[c + 12] are a 4x4 matrix
  // of lanes, which is transposed.
  for (int c = 0; c < 4; ++c) {
    const __m512i even_top = _mm512_shuffle_i32x4(r[c], r[c + 4], 0x88),
                  odd_top = _mm512_shuffle_i32x4(r[c], r[c + 4], 0xdd),
                  even_bottom = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0x88),
                  odd_bottom = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0xdd);
    t[c] = _mm512_shuffle_i32x4(even_top, even_bottom, 0x88);
    t[c + 4] = _mm512_shuffle_i32x4(odd_top, odd_bottom, 0x88);
    t[c + 8] = _mm512_shuffle_i32x4(even_top, even_bottom, 0xdd);
    t[c + 12] = _mm512_shuffle_i32x4(odd_top, odd_bottom, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

}  // namespace leat

#endif
