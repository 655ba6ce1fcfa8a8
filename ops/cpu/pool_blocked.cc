#include "ops/cpu/pool_blocked.h"

#include "ops/cpu/avx512.h"

#ifdef LEAT_AVX512

#include <limits>

#include "ops/cpu/pool_plain.h"
#include "ops/cpu/pool_taps.h"
#include "ops/cpu/prefetch.h"

namespace leat {
namespace {

constexpr int kLanes = 16;

// The largest element so far and its index. The first element replaces an empty state, and NaN
// replaces any number.
struct Best {
  __m512 value;
  __m512i where;

  LEAT_AVX512 void clear() {
    value = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    where = _mm512_setzero_si512();
  }
  LEAT_AVX512 void first(__m512 x, int32_t element) {
    value = x;
    where = _mm512_set1_epi32(element);
  }
  LEAT_AVX512 void add(__m512 x, int32_t element) {
    const __mmask16 better =
        _mm512_cmp_ps_mask(x, value, _CMP_GT_OQ) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    value = _mm512_mask_mov_ps(value, better, x);
    where = _mm512_mask_set1_epi32(where, better, element);
  }
  LEAT_AVX512 void write(float* y, uint8_t* argmax) const {
    prefetch_ahead(y);
    _mm512_storeu_ps(y, value);
    if (!argmax) return;
    prefetch_ahead(argmax);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(argmax), _mm512_cvtepi32_epi8(where));
  }
};

// 2x2 windows that do not overlap: four loads and three comparisons per output, without bounds.
LEAT_AVX512 void max_2x2(const Window& v, const float* x, float* y, uint8_t* argmax) {
  const int64_t row = v.input[2] * kLanes, outputs = v.output[2] * kLanes;
  for (int64_t i = 0; i < v.output[1]; ++i) {
    const float *above = x + 2 * i * row, *below = above + row;
    for (int64_t j = 0; j < outputs; j += kLanes) {
      Best best;
      best.first(_mm512_loadu_ps(above + 2 * j), 0);
      best.add(_mm512_loadu_ps(above + 2 * j + kLanes), 1);
      best.add(_mm512_loadu_ps(below + 2 * j), 2);
      best.add(_mm512_loadu_ps(below + 2 * j + kLanes), 3);
      best.write(y + i * outputs + j, argmax ? argmax + i * outputs + j : nullptr);
    }
  }
}

// Any window: the loops of for_windows() and for_taps(), written out, because a lambda would not
// have the target of this function.
LEAT_AVX512 void max_any(const Window& v, const float* x, float* y, uint8_t* argmax) {
  int64_t at = 0;
  WindowTaps t;
  for (int64_t i = 0; i < v.output[0]; ++i) {
    t.axis[0] = taps_of(v, 0, i);
    for (int64_t j = 0; j < v.output[1]; ++j) {
      t.axis[1] = taps_of(v, 1, j);
      for (int64_t l = 0; l < v.output[2]; ++l, at += kLanes) {
        t.axis[2] = taps_of(v, 2, l);
        Best best;
        best.clear();
        bool first = true;
        for (TapIterator tap(v, t); tap.valid(); tap.next()) {
          const __m512 value = _mm512_loadu_ps(x + tap.position() * kLanes);
          const auto element = static_cast<int32_t>(tap.element());
          first ? best.first(value, element) : best.add(value, element);
          first = false;
        }
        best.write(y + at, argmax ? argmax + at : nullptr);
      }
    }
  }
}

// The positions of 16 channels, widened from bytes to the lanes of a vector.
LEAT_AVX512 __m512i positions(const uint8_t* argmax) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(argmax)));
}
// The gradient where `where` is `element`, else 0.
LEAT_AVX512 __m512 share_of(__m512i where, int32_t element, __m512 grad) {
  return _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(where, _mm512_set1_epi32(element)), grad);
}

// Each input is in one window: its gradient is stored once and not added to.
LEAT_AVX512 void max_grad_2x2(const Window& v, const float* dy, const uint8_t* argmax, float* dx) {
  const int64_t row = v.input[2] * kLanes, outputs = v.output[2] * kLanes;
  const bool covers = v.output[1] * 2 == v.input[1] && v.output[2] * 2 == v.input[2];
  if (!covers) std::fill_n(dx, v.input_area() * kLanes, 0.0f);
  for (int64_t i = 0; i < v.output[1]; ++i) {
    float *above = dx + 2 * i * row, *below = above + row;
    for (int64_t j = 0; j < outputs; j += kLanes) {
      // A sum begins with + 0: -0 becomes 0.
      const __m512 grad = _mm512_add_ps(_mm512_loadu_ps(dy + i * outputs + j), _mm512_setzero_ps());
      const __m512i where = positions(argmax + i * outputs + j);
      _mm512_storeu_ps(above + 2 * j, share_of(where, 0, grad));
      _mm512_storeu_ps(above + 2 * j + kLanes, share_of(where, 1, grad));
      _mm512_storeu_ps(below + 2 * j, share_of(where, 2, grad));
      _mm512_storeu_ps(below + 2 * j + kLanes, share_of(where, 3, grad));
    }
  }
}

// Windows may overlap, so an input adds the gradients of its windows, in the order of the outputs.
LEAT_AVX512 void max_grad_any(const Window& v, const float* dy, const uint8_t* argmax, float* dx) {
  std::fill_n(dx, v.input_area() * kLanes, 0.0f);
  int64_t at = 0;
  WindowTaps t;
  for (int64_t i = 0; i < v.output[0]; ++i) {
    t.axis[0] = taps_of(v, 0, i);
    for (int64_t j = 0; j < v.output[1]; ++j) {
      t.axis[1] = taps_of(v, 1, j);
      for (int64_t l = 0; l < v.output[2]; ++l, at += kLanes) {
        t.axis[2] = taps_of(v, 2, l);
        const __m512 grad = _mm512_loadu_ps(dy + at);
        const __m512i where = positions(argmax + at);
        for (TapIterator tap(v, t); tap.valid(); tap.next()) {
          float* to = dx + tap.position() * kLanes;
          const __m512 share = share_of(where, static_cast<int32_t>(tap.element()), grad);
          _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), share));
        }
      }
    }
  }
}

}  // namespace

bool max_pool_avx512(const Window& v, const float* x, float* y, uint8_t* argmax) {
  if (!has_avx512()) return false;
  is_2x2(v) ? max_2x2(v, x, y, argmax) : max_any(v, x, y, argmax);
  return true;
}

bool max_pool_grad_avx512(const Window& v, const float* dy, const uint8_t* argmax, float* dx) {
  if (!has_avx512()) return false;
  is_2x2(v) ? max_grad_2x2(v, dy, argmax, dx) : max_grad_any(v, dy, argmax, dx);
  return true;
}

}  // namespace leat

#else

namespace leat {
bool max_pool_avx512(const Window&, const float*, float*, uint8_t*) { return false; }
bool max_pool_grad_avx512(const Window&, const float*, const uint8_t*, float*) { return false; }
}  // namespace leat

#endif
