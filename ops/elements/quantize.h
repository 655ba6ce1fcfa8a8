// How leat.Quantize and leat.Dequantize compute an element: see element.h.
#pragma once

#include <cmath>

#include "ops/elements/convert.h"

namespace leat::elementwise {

// The integer nearest to x, with ties to even, moved by the zero, and held in the range of Y. NaN
// becomes 0.
template <typename Y, typename X>
LEAT_INLINE Y quantized(X x, Y zero) {
  const float moved = static_cast<float>(std::nearbyint(x)) + static_cast<float>(zero);
  return convert<Y>(moved);
}

// The same for codes of narrow types; floats are not rounded before the zero moves them.
template <typename X>
LEAT_INLINE uint8_t quantized_code(const NarrowFormat& format, X x, uint8_t zero,
                                   const NarrowRules& rules) {
  const float by = narrow_value(format, zero);
  if (format.is_float()) return narrow_code(format, static_cast<float>(x) + by, rules);
  const float moved = static_cast<float>(std::nearbyint(x)) + by;
  const float most = narrow_value(format, format.largest);
  const float least = format.kind == NarrowFormat::Kind::signed_int ? -most - 1 : 0;
  return narrow_code(format, moved > most ? most : moved < least ? least : moved);
}

// The number that an element stands for, less the zero.
template <typename X>
LEAT_INLINE float dequantized(X x, X zero) {
  return static_cast<float>(static_cast<double>(x) - static_cast<double>(zero));
}

}  // namespace leat::elementwise
