// The functors of the ops on the bits of integers: see element.h.
#pragma once

#include <type_traits>

#include "ops/elements/element.h"

namespace leat::elementwise {

// The tables of loops have one for floats, too, which no node can have.
#define LEAT_BITWISE(name, expression)                    \
  struct name {                                           \
    template <typename T>                                 \
    LEAT_INLINE static T apply(T a, T b, const double*) { \
      if constexpr (std::is_integral_v<T>)                \
        return static_cast<T>(expression);                \
      else                                                \
        return a + b;                                     \
    }                                                     \
  };
LEAT_BITWISE(BitwiseAndOf, a& b)
LEAT_BITWISE(BitwiseOrOf, a | b)
LEAT_BITWISE(BitwiseXorOf, a ^ b)
#undef LEAT_BITWISE

struct BitwiseNotOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, const double*) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(~a);
    else
      return a;
  }
};

// A shift by a negative number, or by the width or more, leaves the sign's copies alone: all ones
// for a right shift of a negative number, else 0. Right shifts of signed numbers copy the sign.
template <bool left>
struct ShiftOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    if constexpr (std::is_integral_v<T>) {
      const bool beyond = is_negative(b) || static_cast<uint64_t>(b) >= 8 * sizeof(T);
      if (beyond) return static_cast<T>(!left && is_negative(a) ? -1 : 0);
      if (left) return static_cast<T>(static_cast<uint64_t>(a) << static_cast<uint64_t>(b));
      return static_cast<T>(a >> b);
    } else {
      return a + b;
    }
  }
};

}  // namespace leat::elementwise
