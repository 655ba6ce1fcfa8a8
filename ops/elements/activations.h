// The functors of the activations and their gradients: see element.h.
#pragma once

#include <cmath>

#include "ops/elements/element.h"
#include "ops/elements/vector_math.h"

namespace leat::elementwise {

// An attribute as the type of the arithmetic. p holds the op's float attributes, in the order of
// the kernel's factory.
template <typename T>
LEAT_INLINE T param(const double* p, int i) {
  return static_cast<T>(p[i]);
}

// NaN stays NaN, and -0 becomes 0.
struct ReluOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return !(x <= T{0}) ? x : T{0};
  }
};

struct ReluGradOf {  // (dy, y)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T y, const double*) {
    return y > T{0} ? dy : T{0};
  }
};

struct LeakyReluOf {  // p[0]: alpha
  template <typename T>
  LEAT_INLINE static T apply(T x, const double* p) {
    const T scaled = x * param<T>(p, 0);
    return x < T{0} ? scaled : x;
  }
};

// For x == 0, the gradient is that of the negative side.
struct LeakyReluGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double* p) {
    const T scaled = dy * param<T>(p, 0);
    return x > T{0} ? dy : scaled;
  }
};

struct SigmoidOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::sigmoid(x);
  }
};

// From y and not from x, because y is known and the exponential need not be computed again.
struct SigmoidGradOf {  // (dy, y)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T y, const double*) {
    return dy * (y * (T{1} - y));
  }
};

struct TanhOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::tanh(x);
  }
};

struct TanhGradOf {  // (dy, y)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T y, const double*) {
    return dy * (T{1} - y * y);
  }
};

// x Phi(x), where Phi is the normal distribution's cumulative function.
struct GeluOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return T{0.5} * x * (T{1} + vmath::erf(x * T{0.70710678118654752}));
  }
};

struct GeluGradOf {  // (dy, x): Phi(x) + x phi(x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double*) {
    const T cumulative = T{0.5} * (T{1} + vmath::erf(x * T{0.70710678118654752}));
    const T density = T{0.39894228040143268} * vmath::exp(T{-0.5} * x * x);
    // The derivative of x Phi(x) by the product rule; phi is the density, the derivative of Phi.
    return dy * (cumulative + x * density);
  }
};

// 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
struct TanhGeluOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    const T u = T{0.79788456080286536} * (x + T{0.044715} * x * x * x);
    return T{0.5} * x * (T{1} + vmath::tanh(u));
  }
};

// du is the derivative of u by x: sqrt(2/pi) (1 + 3 * 0.044715 x^2).
struct TanhGeluGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double*) {
    const T u = T{0.79788456080286536} * (x + T{0.044715} * x * x * x);
    const T t = vmath::tanh(u);
    const T du = T{0.79788456080286536} * (T{1} + T{0.134145} * x * x);
    return dy * (T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * du);
  }
};

struct EluOf {  // p[0]: alpha
  template <typename T>
  LEAT_INLINE static T apply(T x, const double* p) {
    // expm1 keeps the digits of small x, which exp(x) - 1 would lose.
    const T low = param<T>(p, 0) * std::expm1(x);
    return x < T{0} ? low : x;
  }
};

// The derivative is alpha e^x below 0, and 1 above.
struct EluGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double* p) {
    const T low = dy * (param<T>(p, 0) * vmath::exp(x));
    return x > T{0} ? dy : low;
  }
};

// log(1 + e^x) as max(x, 0) + log(1 + e^-|x|), which cannot overflow: the second term is at most
// log 2. The nested condition passes NaN on.
struct SoftplusOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::log1p(std::exp(-std::abs(x))) + (x > T{0} ? x : (x <= T{0} ? T{0} : x));
  }
};

struct HardSigmoidOf {  // p: alpha, beta
  template <typename T>
  LEAT_INLINE static T apply(T x, const double* p) {
    const T line = param<T>(p, 0) * x + param<T>(p, 1);
    const T below = line > T{1} ? T{1} : line;
    return below < T{0} ? T{0} : below;
  }
};

// The gradient is 0 where the forward pass has clamped the line.
struct HardSigmoidGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double* p) {
    const T line = param<T>(p, 0) * x + param<T>(p, 1);
    const T scaled = dy * param<T>(p, 0);
    return line > T{0} && line < T{1} ? scaled : T{0};
  }
};

}  // namespace leat::elementwise
