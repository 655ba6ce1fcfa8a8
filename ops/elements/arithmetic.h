// The functors of Add, Sub, Mul, Div, Mod, Pow, Max, Min and their gradients: see element.h.
#pragma once

#include <cmath>
#include <limits>

#include "ops/elements/element.h"

namespace leat::elementwise {

struct SubOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    return wrap_sub(a, b);
  }
};

struct MulOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    return wrap_mul(a, b);
  }
};

// Integers round toward zero. The kernel has checked for zeros, and the least integer / -1 wraps
// around. The latter is a case of its own, since the processor would fault.
struct DivOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      if (b == T{-1}) return wrap_sub(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};

// If either side is NaN, the result is NaN.
struct MaxOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    return a > b || a != a ? a : b;
  }
};

struct MinOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    return a < b || a != a ? a : b;
  }
};

// The result has the sign of the divisor (Python's %); the kernel has checked for zeros.
struct ModOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    if constexpr (std::is_floating_point_v<T>) {
      const T r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
      if constexpr (std::is_signed_v<T>) {
        // x % -1 is 0, but the processor computes the quotient as well, and faults if that
        // overflows.
        if (b == T{-1}) return T{0};
      }
      const T r = static_cast<T>(a % b);
      return r != 0 && is_negative(r) != is_negative(b) ? static_cast<T>(r + b) : r;
    }
  }
};

// The result has the sign of the dividend (C's fmod).
struct FmodOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if constexpr (std::is_signed_v<T>) {
        // As in ModOf, a remainder by -1 must not reach the processor.
        if (b == T{-1}) return T{0};
      }
      return static_cast<T>(a % b);
    }
  }
};

// base^exponent. For integers, the loop squares the base for each bit of the exponent, and products
// wrap around.
template <typename T>
LEAT_INLINE T power(T base, T exponent) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(base, exponent);
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0) {  // the result is a fraction, truncated to 0, except for 1 and -1
        if (base != T{1} && base != T{-1}) return T{0};
        return exponent % 2 == 0 ? T{1} : base;
      }
    }
    T result = 1;
    for (T left = exponent; left != 0; left = static_cast<T>(left / 2)) {
      if (left % 2 != 0) result = wrap_mul(result, base);
      base = wrap_mul(base, base);
    }
    return result;
  }
}

struct PowOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    return power(a, b);
  }
};

// Converts a double to T and saturates; NaN becomes 0.
template <typename T>
LEAT_INLINE T saturate(double v) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(v);
  } else {
    if (!(v > static_cast<double>(std::numeric_limits<T>::min()))) {
      return std::isnan(v) ? T{0} : std::numeric_limits<T>::min();
    }
    if (v >= static_cast<double>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    return static_cast<T>(v);
  }
}

// dx = dy * e * x^(e-1), and 0 if e is 0. The exponent 0 is a case of its own, because 0 * x^-1 is
// NaN for x = 0. For the exponent 2 no pow() is needed.
struct PowGradOf {
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, T e) {
    if (e == T{0}) return T{0};
    if (e == T{2}) return dy * (T{2} * x);
    return dy * (e * std::pow(x, e - T{1}));
  }
};

}  // namespace leat::elementwise
