// The functors of Neg, Abs, Sign, Sqrt, Exp, Log, Sin, Cos, Erf and the roundings: see element.h.
#pragma once

#include <cmath>
#include <type_traits>

#include "ops/elements/element.h"
#include "ops/elements/vector_math.h"

namespace leat::elementwise {

// Integers wrap around: the negative of the least integer is itself.
struct NegOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return wrap_sub(T{0}, x);
  }
};

struct AbsOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? wrap_sub(T{0}, x) : x;
    else
      return x;
  }
};

// NaN stays NaN.
struct SignOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    if constexpr (std::is_unsigned_v<T>)
      return x > 0 ? T{1} : T{0};
    else
      return x > 0 ? T{1} : (x < 0 ? T{-1} : (x == 0 ? T{0} : x));
  }
};

struct ReciprocalOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return T{1} / x;
  }
};

struct SqrtOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::sqrt(x);
  }
};

struct ExpOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::exp(x);
  }
};

struct ErfOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::erf(x);
  }
};

struct LogOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::log(x);
  }
};

struct SinOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::sin(x);
  }
};

struct CosOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::cos(x);
  }
};

struct FloorOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::floor(x);
  }
};

struct CeilOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::ceil(x);
  }
};

// Ties round to even, as in the default rounding mode.
struct RoundOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::nearbyint(x);
  }
};

}  // namespace leat::elementwise
