#include "ops/cpu/recurrent_loops.h"

#include "ops/cpu/vectorize.h"
#include "ops/elements/element.h"

namespace leat::cells {
namespace {

template <typename T>
LEAT_INLINE void activate_all(const CellActivation& f, T* x, int64_t n) {
  with_activation<T>(f, [&](auto&& of) {
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) x[i] = of(x[i]);
  });
}

template <typename T>
LEAT_INLINE void derive_all(const CellActivation& f, const T* y, T* d, int64_t n) {
  with_derivative<T>(f, [&](auto&& of) {
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) d[i] = d[i] * of(y[i]);
  });
}

// to[i] = of(i) for all i.
template <typename T, typename Of>
LEAT_INLINE void set_all(T* to, int64_t n, Of&& of) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) to[i] = of(i);
}

template <typename T>
LEAT_INLINE void lstm_gradients_all(const T* sum, const LstmGates<T>& of, int64_t n) {
  const T *const i = of.i, *const f = of.f, *const g = of.g, *const before = of.before;
  T *const di = of.di, *const df = of.df, *const dg = of.dg, *const dc = of.dc;
  LEAT_NO_OVERLAP
  for (int64_t j = 0; j < n; ++j) {
    const T s = sum[j];
    di[j] = s * g[j];
    df[j] = s * before[j];
    dg[j] = s * i[j];
    dc[j] = s * f[j];
  }
}

}  // namespace

LEAT_VECTOR_CLONES void activate(const CellActivation& f, float* x, int64_t n) {
  activate_all(f, x, n);
}
void activate(const CellActivation& f, double* x, int64_t n) { activate_all(f, x, n); }
LEAT_VECTOR_CLONES void derive(const CellActivation& f, const float* y, float* d, int64_t n) {
  derive_all(f, y, d, n);
}
void derive(const CellActivation& f, const double* y, double* d, int64_t n) {
  derive_all(f, y, d, n);
}

LEAT_VECTOR_CLONES void sum(const float* a, const float* b, float* to, int64_t n) {
  set_all(to, n, [=](int64_t i) { return a[i] + b[i]; });
}
LEAT_VECTOR_CLONES void sum(const BFloat16* a, const float* b, float* to, int64_t n) {
  set_all(to, n, [=](int64_t i) { return elementwise::load(a[i]) + b[i]; });
}
void sum(const double* a, const double* b, double* to, int64_t n) {
  set_all(to, n, [=](int64_t i) { return a[i] + b[i]; });
}

LEAT_VECTOR_CLONES void product(const float* a, const float* b, float* to, int64_t n) {
  set_all(to, n, [=](int64_t i) { return a[i] * b[i]; });
}
void product(const double* a, const double* b, double* to, int64_t n) {
  set_all(to, n, [=](int64_t i) { return a[i] * b[i]; });
}

LEAT_VECTOR_CLONES void add_product(const float* a, const float* b, float* to, int64_t n) {
  set_all(to, n, [=](int64_t i) { return to[i] + a[i] * b[i]; });
}
void add_product(const double* a, const double* b, double* to, int64_t n) {
  set_all(to, n, [=](int64_t i) { return to[i] + a[i] * b[i]; });
}

LEAT_VECTOR_CLONES void lstm_state(const float* i, const float* f, const float* g, float* c,
                                   int64_t n) {
  set_all(c, n, [=](int64_t j) { return f[j] * c[j] + i[j] * g[j]; });
}
void lstm_state(const double* i, const double* f, const double* g, double* c, int64_t n) {
  set_all(c, n, [=](int64_t j) { return f[j] * c[j] + i[j] * g[j]; });
}

LEAT_VECTOR_CLONES void lstm_gradients(const float* sum, const LstmGates<float>& of, int64_t n) {
  lstm_gradients_all(sum, of, n);
}
void lstm_gradients(const double* sum, const LstmGates<double>& of, int64_t n) {
  lstm_gradients_all(sum, of, n);
}

}  // namespace leat::cells
