// Elements of fewer than 16 bits: floats of 8, 6 and 4 bits, and integers of 4 and 2. They are for
// storage: an op converts them to wider elements before it computes.
//
// In memory an element is one byte: its code in the low bits, and zeros above them. Files may pack
// several into a byte (ops/onnx/narrow_tensors.h).
//
// Source: ONNX, "Float stored in 8 bits", "4 bit integer types" and Cast; the Open Compute
// Project's Microscaling Formats (MX) 1.0; for "fnuz", Noune et al., "8-bit Numerical Formats for
// Deep Neural Networks", 2022.
//
// Threads: any; nothing here has a state. The functions are for GPUs, too.
#pragma once

#include <bit>
#include <cstdint>

#include "devices/base/dtype.h"
#include "devices/base/inline.h"

namespace leat {

// How the codes of a type stand for numbers.
struct NarrowFormat {
  enum class Kind : uint8_t {
    sign_first,    // the sign, the exponent, the mantissa
    one_zero,      // the same, but the code of -0 is NaN ("fnuz")
    power_of_two,  // the exponent alone; all ones are NaN
    signed_int,    // two's complement
    unsigned_int,
  };
  Kind kind;
  int bits;           // of a code
  int mantissa_bits;  // of a float
  int bias;           // of the exponent
  uint8_t largest;    // the code of the largest number
  uint8_t infinity;   // 0 if it has none
  uint8_t nan;        // the code that NaN is stored as

  LEAT_INLINE bool is_float() const {
    return kind != Kind::signed_int && kind != Kind::unsigned_int;
  }
};

// REQUIRES: is_narrow(dtype).
LEAT_INLINE NarrowFormat narrow_format(DType dtype) {
  using Kind = NarrowFormat::Kind;
  switch (dtype) {
    case DType::f8e4m3fn:
      return {Kind::sign_first, 8, 3, 7, 0x7e, 0, 0x7f};
    case DType::f8e4m3fnuz:
      return {Kind::one_zero, 8, 3, 8, 0x7f, 0, 0x80};
    case DType::f8e5m2:
      return {Kind::sign_first, 8, 2, 15, 0x7b, 0x7c, 0x7e};
    case DType::f8e5m2fnuz:
      return {Kind::one_zero, 8, 2, 16, 0x7f, 0, 0x80};
    case DType::f8e8m0:
      return {Kind::power_of_two, 8, 0, 127, 0xfe, 0, 0xff};
    // These three have no NaN: -0 takes its place.
    case DType::f6e2m3:
      return {Kind::sign_first, 6, 3, 1, 0x1f, 0, 0x20};
    case DType::f6e3m2:
      return {Kind::sign_first, 6, 2, 3, 0x1f, 0, 0x20};
    case DType::f4e2m1:
      return {Kind::sign_first, 4, 1, 1, 0x07, 0, 0x08};
    case DType::i4:
      return {Kind::signed_int, 4, 0, 0, 0x07, 0, 0};
    case DType::i2:
      return {Kind::signed_int, 2, 0, 0, 0x01, 0, 0};
    case DType::u4:
      return {Kind::unsigned_int, 4, 0, 0, 0x0f, 0, 0};
    default:
      return {Kind::unsigned_int, 2, 0, 0, 0x03, 0, 0};
  }
}

// Two to the power of `exponent`. REQUIRES: -1022 <= exponent <= 1023.
LEAT_INLINE double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// The number that a code stands for, which every float32 holds exactly. Bits above those of the
// type are not read.
LEAT_INLINE float narrow_value(const NarrowFormat& format, uint8_t code) {
  using Kind = NarrowFormat::Kind;
  const float nan = std::bit_cast<float>(0x7fc00000u);
  const int c = code & ((1 << format.bits) - 1), sign = 1 << (format.bits - 1);
  switch (format.kind) {
    case Kind::signed_int:
      return static_cast<float>((c ^ sign) - sign);
    case Kind::unsigned_int:
      return static_cast<float>(c);
    case Kind::power_of_two:
      return c == format.nan ? nan : static_cast<float>(power_of_two(c - format.bias));
    default:
      break;
  }
  const int magnitude = c & (sign - 1);
  const bool one_zero = format.kind == Kind::one_zero;
  if (one_zero && c == format.nan) return nan;
  double value;
  if (!one_zero && magnitude > format.largest) {
    if (format.infinity == 0 || magnitude > format.infinity) return c & sign ? -nan : nan;
    value = std::bit_cast<float>(0x7f800000u);
  } else {
    // Without an implied 1 the exponent is that of 1, too.
    const int exponent = magnitude >> format.mantissa_bits, one = 1 << format.mantissa_bits;
    const int mantissa = (magnitude & (one - 1)) + (exponent > 0 ? one : 0);
    value =
        mantissa * power_of_two((exponent > 0 ? exponent : 1) - format.bias - format.mantissa_bits);
  }
  return static_cast<float>(c & sign ? -value : value);
}

// The attribute round_mode of Cast, which only f8e8m0 reads.
enum class PowerRounding : uint8_t { up, down, nearest };

// How numbers become codes.
struct NarrowRules {
  bool saturate = true;  // a float beyond the range becomes the largest, not infinity or NaN
  PowerRounding power = PowerRounding::up;
};

// The code of a power of two at or beside |value|. 0 and smaller ones take the smallest power, or
// NaN without `saturate`.
LEAT_INLINE uint8_t power_code(const NarrowFormat& format, double value, const NarrowRules& rules) {
  const double size = value < 0 ? -value : value;
  if (!(size == size)) return format.nan;
  const double least = power_of_two(-format.bias);
  const double most = power_of_two(format.largest - format.bias);
  if (size < least) return rules.saturate ? 0 : format.nan;
  if (size > 2 * most) return rules.saturate ? format.largest : format.nan;
  const uint64_t bits = std::bit_cast<uint64_t>(size);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  int code = static_cast<int>(bits >> 52) - 1023 + format.bias;
  const bool up = rules.power == PowerRounding::up     ? fraction > 0
                  : rules.power == PowerRounding::down ? false
                                                       : fraction >> 51 != 0;
  code += up ? 1 : 0;
  if (code > format.largest) return rules.saturate ? format.largest : format.nan;
  return static_cast<uint8_t>(code);
}

// The code of a float of the format that is nearest to `value`, with ties to even.
LEAT_INLINE uint8_t float_code(const NarrowFormat& format, double value, const NarrowRules& rules) {
  const bool one_zero = format.kind == NarrowFormat::Kind::one_zero;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 63) << (format.bits - 1));
  const bool has_nan = (format.nan & ~(1 << (format.bits - 1))) != 0;
  if (!(value == value)) return has_nan ? static_cast<uint8_t>(format.nan | sign) : format.nan;
  const uint64_t size_bits = bits & ~(uint64_t{1} << 63);
  const double size = std::bit_cast<double>(size_bits);
  int code = format.largest + 1;
  // Beyond twice the largest one there is nothing to round.
  if (size < power_of_two((format.largest >> format.mantissa_bits) - format.bias + 2)) {
    const int exponent = static_cast<int>(size_bits >> 52) - 1023;
    const int shared = exponent < 1 - format.bias ? 1 - format.bias : exponent;
    // The addition of 2^52 rounds to an integer. If that is the next power, the sum below carries
    // into the exponent.
    const double whole = size * power_of_two(format.mantissa_bits - shared) + 0x1p52;
    const int steps = static_cast<int>(whole - 0x1p52);
    code = ((shared + format.bias - 1) << format.mantissa_bits) + steps;
  }
  if (code > format.largest) {
    const bool has_other = format.infinity != 0 || has_nan || one_zero;
    if (rules.saturate || !has_other)
      code = format.largest;
    else if (format.infinity != 0)
      code = format.infinity;
    else
      return one_zero ? format.nan : static_cast<uint8_t>(format.nan | sign);
  }
  if (one_zero && code == 0) return 0;
  return static_cast<uint8_t>(code | sign);
}

// The code for a number. A float becomes an integer by truncation; integers, also these, wrap
// around to the bits of the type. NaN and infinities become the integer 0.
LEAT_INLINE uint8_t narrow_code(const NarrowFormat& format, double value,
                                const NarrowRules& rules = {}) {
  if (format.kind == NarrowFormat::Kind::power_of_two) return power_code(format, value, rules);
  if (format.is_float()) return float_code(format, value, rules);
  // From 2^63 on the low bits of a double are 0.
  if (!(value > -0x1p63 && value < 0x1p63)) return 0;
  return static_cast<uint8_t>(static_cast<int64_t>(value) & ((1 << format.bits) - 1));
}

}  // namespace leat
