// Softmax and related functions over one contiguous line of n >= 1 elements. Sums have the tree of
// ops/elements/tree_sum.h. y may be x, but must not overlap it otherwise.
//
// The maximum is subtracted first, so no exponential overflows. A NaN in a line makes the whole
// result NaN, as does a largest element of +infinity or -infinity; a single -infinity among finite
// elements has the probability 0. The functions for float are compiled for each vector width, with
// equal bits (vector_math.h); those for double use the C library. Threads: any. f16 and bf16 are
// converted by the caller, as are lines whose elements are not contiguous.
#pragma once

#include <cstdint>

namespace leat {

// y = exp(x - max) / sum exp(x - max).
void softmax_line(const float* x, float* y, int64_t n);
void softmax_line(const double* x, double* y, int64_t n);
// y = (x - max) - log(sum exp(x - max)).
void log_softmax_line(const float* x, float* y, int64_t n);
void log_softmax_line(const double* x, double* y, int64_t n);
// The gradients, from the gradient dy of the result y: dx = y * (dy - sum(dy * y)) for the softmax.
// dx must be neither of them, because it holds the products until their sum is known.
void softmax_grad_line(const float* dy, const float* y, float* dx, int64_t n);
void softmax_grad_line(const double* dy, const double* y, double* dx, int64_t n);
// dx = dy - exp(y) * sum(dy), where y is the log-softmax.
void log_softmax_grad_line(const float* dy, const float* y, float* dx, int64_t n);
void log_softmax_grad_line(const double* dy, const double* y, double* dx, int64_t n);
// y = exp(x) * factor: the gradient of a cross entropy, from log probabilities.
void scaled_exp_line(const float* x, float factor, float* y, int64_t n);
void scaled_exp_line(const double* x, double factor, double* y, int64_t n);

}  // namespace leat
