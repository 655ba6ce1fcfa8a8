// The functors of the comparisons, of And, Or, Xor, Not, IsNaN and IsInf: see element.h. They
// follow IEEE 754: a comparison with NaN is false, also NaN == NaN. f16 and bf16 are compared as
// floats, which is exact.
#pragma once

#include "ops/elements/element.h"

namespace leat::elementwise {

struct EqualOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a == b;
  }
};

struct GreaterOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a > b;
  }
};

struct LessOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a < b;
  }
};

struct GreaterOrEqualOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a >= b;
  }
};

struct LessOrEqualOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a <= b;
  }
};

struct AndOf {
  LEAT_INLINE static bool apply(bool a, bool b, const double*) { return a && b; }
};

struct OrOf {
  LEAT_INLINE static bool apply(bool a, bool b, const double*) { return a || b; }
};

struct XorOf {
  LEAT_INLINE static bool apply(bool a, bool b, const double*) { return a != b; }
};

struct NotOf {
  LEAT_INLINE static bool apply(bool a, const double*) { return !a; }
};

struct IsNaNOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, const double*) {
    return a != a;
  }
};

struct IsInfOf {  // p: detect_negative, detect_positive
  template <typename T>
  LEAT_INLINE static bool apply(T a, const double* p) {
    return (a - a != 0 && a == a) && (a < 0 ? p[0] != 0 : p[1] != 0);
  }
};

}  // namespace leat::elementwise
