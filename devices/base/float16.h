// IEEE half and bfloat16: formats to store. Arithmetic converts them to float first. Host and GPUs
// convert by the same functions, so their bits are equal.
//
// Threads: pure functions.
#pragma once

#include <bit>
#include <cstdint>

#include "devices/base/inline.h"

namespace leat {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// A bfloat16 is the upper half of a float.
LEAT_INLINE float to_float(BFloat16 b) { return std::bit_cast<float>(uint32_t{b.bits} << 16); }

// Rounds to nearest, ties to even; a value out of range becomes infinity. Adding 0x7fff plus the
// lowest bit that stays rounds. A NaN gets a bit that is not cut off, so that it stays a NaN.
LEAT_INLINE BFloat16 to_bfloat16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

// A subnormal half is normal as a float: its mantissa is shifted until its leading bit is there.
// 112 is the difference of the two exponents' biases.
LEAT_INLINE float to_float(Half h) {
  const uint32_t sign = uint32_t{h.bits & 0x8000u} << 16;
  uint32_t exponent = (h.bits >> 10) & 0x1f;
  uint32_t mantissa = h.bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    exponent = 1;
    while (!(mantissa & 0x400)) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= 0x3ff;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Rounds to nearest, ties to even; a value out of range becomes infinity, and a NaN stays a NaN.
// 0x477ff000 is the smallest float that rounds to infinity, 0x38800000 the smallest normal half.
LEAT_INLINE Half to_half(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};
  // A subnormal or zero: the sum with 0.5f, whose unit in the last place is 2^-24, rounds it.
  if (magnitude < 0x38800000) {
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000))};
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13))};
}

}  // namespace leat
