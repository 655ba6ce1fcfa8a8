#include "ops/cpu/softmax_lines.h"

#include <cmath>

#include "ops/cpu/vectorize.h"
#include "ops/elements/tree_sum.h"
#include "ops/elements/vector_math.h"

namespace leat {
namespace {

// y = exp(x - less). Callers pass the line's maximum as `less`: no exponent is above 0 then, so
// nothing overflows, and the largest term of the sum is 1.
template <typename T>
LEAT_INLINE void exp_less(const T* x, T less, T* y, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = vmath::exp(x[i] - less);
}

// The maximum is folded without a tree of blocks, because a maximum is exact in any order. The sum
// is rounded, so it has the tree.
template <typename T>
LEAT_INLINE void softmax(const T* x, T* y, int64_t n) {
  exp_less(x, fold_line<MaxFold, AsIs>(x, n), y, n);
  const T sum = tree_sum(y, n);
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] / sum;
}

// The exponentials go through a block on the stack and not through y, because y may be x, and the
// last loop reads x again. The tree is that of tree_sum().
template <typename T>
LEAT_INLINE void log_softmax(const T* x, T* y, int64_t n) {
  const T largest = fold_line<MaxFold, AsIs>(x, n);
  T memory[64], block[kLineBlock];
  TreeStack<SumFold, T> stack(memory, 1);
  for (int64_t i = 0; i < n; i += kLineBlock) {
    const int64_t size = std::min(kLineBlock, n - i);
    exp_less(x + i, largest, block, size);
    *stack.top() = fold_line<SumFold, AsIs>(block, size);
    stack.push();
  }
  const T log_sum = std::log(*stack.finish());
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - log_sum;
}

// dx = y * (dy - sum(dy * y)). dx holds the products until their sum is known: this is why it must
// be neither dy nor y.
template <typename T>
LEAT_INLINE void softmax_grad(const T* dy, const T* y, T* dx, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * y[i];
  const T sum = tree_sum(dx, n);
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
}

// dx = dy - exp(y) * sum(dy), where exp(y) is the softmax itself.
template <typename T>
LEAT_INLINE void log_softmax_grad(const T* dy, const T* y, T* dx, int64_t n) {
  const T sum = tree_sum(dy, n);
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - vmath::exp(y[i]) * sum;
}

template <typename T>
LEAT_INLINE void scaled_exp(const T* x, T factor, T* y, int64_t n) {
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) y[i] = vmath::exp(x[i]) * factor;
}

}  // namespace

// The functions of float are clones, for every instruction set. Those of double are compiled once,
// because their exp() is a call into the C library and cannot be vectorized.
LEAT_VECTOR_CLONES void softmax_line(const float* x, float* y, int64_t n) { softmax(x, y, n); }
void softmax_line(const double* x, double* y, int64_t n) { softmax(x, y, n); }
LEAT_VECTOR_CLONES void log_softmax_line(const float* x, float* y, int64_t n) {
  log_softmax(x, y, n);
}
void log_softmax_line(const double* x, double* y, int64_t n) { log_softmax(x, y, n); }
LEAT_VECTOR_CLONES void softmax_grad_line(const float* dy, const float* y, float* dx, int64_t n) {
  softmax_grad(dy, y, dx, n);
}
void softmax_grad_line(const double* dy, const double* y, double* dx, int64_t n) {
  softmax_grad(dy, y, dx, n);
}
LEAT_VECTOR_CLONES void log_softmax_grad_line(const float* dy, const float* y, float* dx,
                                              int64_t n) {
  log_softmax_grad(dy, y, dx, n);
}
void log_softmax_grad_line(const double* dy, const double* y, double* dx, int64_t n) {
  log_softmax_grad(dy, y, dx, n);
}
LEAT_VECTOR_CLONES void scaled_exp_line(const float* x, float factor, float* y, int64_t n) {
  scaled_exp(x, factor, y, n);
}
void scaled_exp_line(const double* x, double factor, double* y, int64_t n) {
  scaled_exp(x, factor, y, n);
}

}  // namespace leat
