// The conversion of Cast between any two compute types: see element.h.
#pragma once

#include <limits>
#include <type_traits>

#include "ops/elements/element.h"

namespace leat::elementwise {

// Integers wrap around, floats become integers by truncation and saturate (NaN becomes 0), and any
// number but 0 becomes true.
template <typename To, typename From>
LEAT_INLINE To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The bounds as floats: the upper one is the first value that is out of range.
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From high =
        static_cast<From>(2) * static_cast<From>(To{1} + (std::numeric_limits<To>::max() >> 1));
    if (v >= high) return std::numeric_limits<To>::max();
    if (v <= low) return std::numeric_limits<To>::min();
    return v == v ? static_cast<To>(v) : To{0};
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace leat::elementwise
