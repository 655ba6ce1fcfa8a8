// Softmax and related functions over one contiguous line of n >= 1 elements. Sums have the tree of
// ops/cpu/tree_sum.h. y may be x.
#pragma once

#include <cstdint>

namespace leat {

// y = exp(x - max) / sum exp(x - max).
void softmax_line(const float* x, float* y, int64_t n);
void softmax_line(const double* x, double* y, int64_t n);
// y = (x - max) - log(sum exp(x - max)).
void log_softmax_line(const float* x, float* y, int64_t n);
void log_softmax_line(const double* x, double* y, int64_t n);
// The gradients, from the gradient dy of the result y. dx must be neither of them.
void softmax_grad_line(const float* dy, const float* y, float* dx, int64_t n);
void softmax_grad_line(const double* dy, const double* y, double* dx, int64_t n);
void log_softmax_grad_line(const float* dy, const float* y, float* dx, int64_t n);
void log_softmax_grad_line(const double* dy, const double* y, double* dx, int64_t n);
// y = exp(x) * factor.
void scaled_exp_line(const float* x, float factor, float* y, int64_t n);
void scaled_exp_line(const double* x, double factor, double* y, int64_t n);

}  // namespace leat
