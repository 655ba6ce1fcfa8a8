// How leat.Quantize and leat.Dequantize compute an element: see element.h.
#pragma once

#include <cmath>
#include <type_traits>

#include "ops/elements/convert.h"

namespace leat::elementwise {

// The type for sums with numbers of type X.
template <typename X>
using Shifted = std::conditional_t<std::is_same_v<X, double>, double, float>;

// The integer nearest to x, with ties to even, moved by the zero, and held in the range of Y. NaN
// becomes 0.
template <typename Y, typename X>
LEAT_INLINE Y quantized(X x, Y zero) {
  return convert<Y>(static_cast<Shifted<X>>(std::nearbyint(x)) + static_cast<Shifted<X>>(zero));
}

// The same for codes of narrow types; floats are not rounded before the zero moves them.
template <typename X>
LEAT_INLINE uint8_t quantized_code(const NarrowFormat& format, X x, uint8_t zero,
                                   const NarrowRules& rules) {
  const float by = narrow_value(format, zero);
  if (format.is_float()) return narrow_code(format, static_cast<Shifted<X>>(x) + by, rules);
  const auto moved = static_cast<Shifted<X>>(std::nearbyint(x)) + by;
  const float most = format.largest;  // the code of a positive integer is the integer
  const float least = format.kind == NarrowFormat::Kind::signed_int ? -most - 1 : 0;
  return narrow_code(format, moved > most ? most : moved < least ? least : moved);
}

// The number that an element stands for, less the zero; Y is a compute type.
template <typename Y, typename X>
LEAT_INLINE Y dequantized(X x, X zero) {
  return static_cast<Y>(static_cast<double>(x) - static_cast<double>(zero));
}

}  // namespace leat::elementwise
