#include "ops/cpu/attention_tiles.h"

#include <cmath>

#include "ops/cpu/vectorize.h"
#include "ops/elements/tree_sum.h"
#include "ops/elements/vector_math.h"

namespace leat {
namespace {

template <typename T>
LEAT_INLINE void cap_all(T cap, T* x, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) x[i] = cap * vmath::tanh(x[i] / cap);
}

template <typename T>
LEAT_INLINE void mask_all(const T* mask, T* x, int64_t n) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) x[i] = mask[i] == kHidden ? kHidden : x[i] + mask[i];
}

template <typename T>
LEAT_INLINE void hide_all(const bool* mask, T* x, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) x[i] = mask[i] ? x[i] : -std::numeric_limits<T>::infinity();
}

template <typename T>
LEAT_INLINE void exp_less_all(T less, T* x, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) x[i] = vmath::exp(x[i] - less);
}

template <typename T>
LEAT_INLINE T add_exponentials_of(T* x, int64_t n, T* largest, T* sum) {
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  T m = *largest;
  MaxFold::into(m, fold_line<MaxFold, AsIs>(x, n));
  // Only hidden keys: the exponentials are 0 for any finite m.
  exp_less_all(m == kNothing ? T(0) : m, x, n);
  const T factor = *largest == kNothing ? T(0) : vmath::exp(*largest - m);
  *sum = *sum * factor + fold_line<SumFold, AsIs>(x, n);
  *largest = m;
  return factor;
}

template <typename T>
LEAT_INLINE void score_gradients_of(const T* p, T mean, T* d, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) d[i] = p[i] * (d[i] - mean);
}

template <typename T>
LEAT_INLINE void scale_and_add_all(const T* x, T factor, T* y, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] * factor + x[i];
}

template <typename T>
LEAT_INLINE T dot_of(const T* x, const T* y, int64_t n) {
  T lanes[kFoldLanes] = {};
  int64_t i = 0;
  for (; i + kFoldLanes <= n; i += kFoldLanes) {
    for (int j = 0; j < kFoldLanes; ++j) lanes[j] += x[i + j] * y[i + j];
  }
  for (int j = 0; i + j < n; ++j) lanes[j] += x[i + j] * y[i + j];
  return fold_line<SumFold, AsIs>(lanes, kFoldLanes);
}

}  // namespace

LEAT_VECTOR_CLONES void cap_scores(float cap, float* x, int64_t n) { cap_all(cap, x, n); }
void cap_scores(double cap, double* x, int64_t n) { cap_all(cap, x, n); }

LEAT_VECTOR_CLONES void add_mask(const float* mask, float* x, int64_t n) { mask_all(mask, x, n); }
void add_mask(const double* mask, double* x, int64_t n) { mask_all(mask, x, n); }

LEAT_VECTOR_CLONES void hide_false(const bool* mask, float* x, int64_t n) { hide_all(mask, x, n); }
void hide_false(const bool* mask, double* x, int64_t n) { hide_all(mask, x, n); }

LEAT_VECTOR_CLONES float add_exponentials(float* x, int64_t n, float* largest, float* sum) {
  return add_exponentials_of(x, n, largest, sum);
}
double add_exponentials(double* x, int64_t n, double* largest, double* sum) {
  return add_exponentials_of(x, n, largest, sum);
}

LEAT_VECTOR_CLONES void probabilities(float log_sum_exp, float* x, int64_t n) {
  exp_less_all(log_sum_exp, x, n);
}
void probabilities(double log_sum_exp, double* x, int64_t n) { exp_less_all(log_sum_exp, x, n); }

LEAT_VECTOR_CLONES void score_gradients(const float* p, float mean, float* d, int64_t n) {
  score_gradients_of(p, mean, d, n);
}
void score_gradients(const double* p, double mean, double* d, int64_t n) {
  score_gradients_of(p, mean, d, n);
}

LEAT_VECTOR_CLONES void scale_and_add(const float* x, float factor, float* y, int64_t n) {
  scale_and_add_all(x, factor, y, n);
}
void scale_and_add(const double* x, double factor, double* y, int64_t n) {
  scale_and_add_all(x, factor, y, n);
}

LEAT_VECTOR_CLONES float dot(const float* x, const float* y, int64_t n) { return dot_of(x, y, n); }
double dot(const double* x, const double* y, int64_t n) { return dot_of(x, y, n); }

}  // namespace leat
