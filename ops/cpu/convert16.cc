#include "ops/cpu/convert16.h"

#include "ops/cpu/avx512.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/cpu/vectorize.h"

namespace leat {
namespace {

LEAT_VECTOR_CLONES void widen_bf16(const BFloat16* x, float* y, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = elementwise::load(x[i]);
}

LEAT_VECTOR_CLONES void narrow_bf16_plainly(const float* x, BFloat16* y, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = elementwise::store<BFloat16>(x[i]);
}

#ifdef LEAT_AVX512

// Computes what elementwise::store<BFloat16>() does, on 16 elements. The machine's own instruction
// would flush subnormal numbers.
LEAT_AVX512 int64_t narrow_bf16_avx512(const float* x, BFloat16* y, int64_t n) {
  const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1),
                quiet = _mm512_set1_epi32(0x400000);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 v = _mm512_loadu_ps(x + i);
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), one);
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(half, odd));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i all = _mm512_mask_or_epi32(rounded, nan, bits, quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16)));
  }
  return i;
}

// The instructions of AVX-512F work on 16 elements. These functions return how many elements they
// converted: all whole vectors of 16.
LEAT_AVX512 int64_t widen_f16_avx512(const Half* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(half));
  }
  return i;
}

// The instruction keeps the payload of a NaN, and to_half() does not. A NaN is therefore replaced
// by the one of to_half() and its sign, before the conversion.
LEAT_AVX512 int64_t narrow_f16_avx512(const float* x, Half* y, int64_t n) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN), quiet = _mm512_set1_epi32(0x7fc00000);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 v = _mm512_loadu_ps(x + i);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i clean = _mm512_mask_or_epi32(bits, nan, _mm512_and_epi32(bits, sign), quiet);
    const __m256i half =
        _mm512_cvtps_ph(_mm512_castsi512_ps(clean), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), half);
  }
  return i;
}

#endif

void narrow_bf16(const float* x, BFloat16* y, int64_t n) {
  int64_t i = 0;
#ifdef LEAT_AVX512
  if (has_avx512()) i = narrow_bf16_avx512(x, y, n);
#endif
  narrow_bf16_plainly(x + i, y + i, n - i);
}

void widen_f16(const Half* x, float* y, int64_t n) {
  int64_t i = 0;
#ifdef LEAT_AVX512
  if (has_avx512()) i = widen_f16_avx512(x, y, n);
#endif
  for (; i < n; ++i) y[i] = to_float(x[i]);
}

void narrow_f16(const float* x, Half* y, int64_t n) {
  int64_t i = 0;
#ifdef LEAT_AVX512
  if (has_avx512()) i = narrow_f16_avx512(x, y, n);
#endif
  for (; i < n; ++i) y[i] = to_half(x[i]);
}

}  // namespace

void widen(DType from, const void* x, float* y, int64_t n) {
  if (from == DType::bf16)
    widen_bf16(static_cast<const BFloat16*>(x), y, n);
  else
    widen_f16(static_cast<const Half*>(x), y, n);
}

void narrow(DType to, const float* x, void* y, int64_t n) {
  if (to == DType::bf16)
    narrow_bf16(x, static_cast<BFloat16*>(y), n);
  else
    narrow_f16(x, static_cast<Half*>(y), n);
}

}  // namespace leat
