// Loops over the n numbers of a row of a recurrent cell, vectorized for f32. Arrays are
// equal or disjoint. Threads: any; there is no state.
#pragma once

#include <cstdint>

#include "devices/base/float16.h"
#include "ops/elements/cell_activation.h"

namespace leat::cells {

// x = f(x)
void activate(const CellActivation& f, float* x, int64_t n);
void activate(const CellActivation& f, double* x, int64_t n);
// d *= f'(x), where y = f(x)
void derive(const CellActivation& f, const float* y, float* d, int64_t n);
void derive(const CellActivation& f, const double* y, double* d, int64_t n);

// to = a + b
void sum(const float* a, const float* b, float* to, int64_t n);
void sum(const BFloat16* a, const float* b, float* to, int64_t n);
void sum(const double* a, const double* b, double* to, int64_t n);
// to = a * b
void product(const float* a, const float* b, float* to, int64_t n);
void product(const double* a, const double* b, double* to, int64_t n);
// to += a * b
void add_product(const float* a, const float* b, float* to, int64_t n);
void add_product(const double* a, const double* b, double* to, int64_t n);

// A row of an LSTM: c = f c + i g
void lstm_state(const float* i, const float* f, const float* g, float* c, int64_t n);
void lstm_state(const double* i, const double* f, const double* g, double* c, int64_t n);

// The gradients of a row of an LSTM, from `sum`, the gradient of c: those of the gates' values, and
// dc, that of the state before.
template <typename T>
struct LstmGates {
  const T *i, *f, *g, *before;  // the gates, and the state before
  T *di, *df, *dg, *dc;
};
void lstm_gradients(const float* sum, const LstmGates<float>& of, int64_t n);
void lstm_gradients(const double* sum, const LstmGates<double>& of, int64_t n);

}  // namespace leat::cells
