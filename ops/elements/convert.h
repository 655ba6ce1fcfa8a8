// The conversions of Cast: between any two compute types (see element.h), and from and to the codes
// of narrow types.
#pragma once

#include <limits>
#include <type_traits>

#include "devices/base/narrow.h"
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

// The number of a narrow code as a compute type: integers wrap around as those of other types do.
template <typename To>
LEAT_INLINE To from_code(const NarrowFormat& format, uint8_t code) {
  const float value = narrow_value(format, code);
  return format.is_float() ? convert<To>(value) : convert<To>(static_cast<int>(value));
}

// The code of v in a narrow type.
template <typename From>
LEAT_INLINE uint8_t to_code(const NarrowFormat& format, From v, const NarrowRules& rules) {
  if constexpr (std::is_integral_v<From>) {
    // The low bits of a large integer would be lost in a double.
    const int mask = (1 << format.bits) - 1;
    if (!format.is_float()) return static_cast<uint8_t>(static_cast<uint8_t>(v) & mask);
  }
  return narrow_code(format, static_cast<double>(v), rules);
}

}  // namespace leat::elementwise
