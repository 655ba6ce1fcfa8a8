// How a functor of single elements loads, stores and computes them. Functors are structs with a
// static function `apply` over one or two elements and the op's attributes; the kernels of every
// device are made of the same functors, so that their bits are equal where IEEE 754 and our own
// functions (vector_math.h) fix them. Functions of the C library differ between devices.
//
// Threads: any; nothing here has a state.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "devices/base/float16.h"
#include "devices/base/inline.h"

namespace leat::elementwise {

// The type for computations with T: float for Half and BFloat16, T itself for all others. Integers
// keep their own width here, unlike Compute in tree_sum.h, which widens them to 64 bits for sums.
template <typename T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<Half> {
  using type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
// The short name of that type. A functor's `apply` is called with arguments of this type, and must
// return it (or, in loops with another Y, the compute type of Y).
template <typename T>
using Compute = typename ComputeOf<T>::type;

// Converts an element to its compute type, exactly: every f16 and every bf16 is a float.
template <typename T>
LEAT_INLINE Compute<T> load(T v) {
  return v;
}
template <>
LEAT_INLINE float load(Half v) {
  return to_float(v);
}
// A bf16 is the upper half of a float. The conversion stands here, and not as a call of to_float(),
// so that the loops over bf16 vectorize.
template <>
LEAT_INLINE float load(BFloat16 v) {
  return std::bit_cast<float>(uint32_t{v.bits} << 16);
}

// Converts a result of the compute type to an element. f16 and bf16 are rounded to nearest, ties to
// even; a value out of range becomes an infinity, and a NaN stays a NaN.
template <typename T>
LEAT_INLINE T store(Compute<T> v) {
  return v;
}
template <>
LEAT_INLINE Half store<Half>(float v) {
  return to_half(v);
}
// Gives the results of to_bfloat16() for all numbers, without a branch. Adding 0x7fff and the
// lowest bit that is kept rounds ties to even. A NaN is made quiet instead, because the addition
// could carry its payload into the exponent.
template <>
LEAT_INLINE BFloat16 store<BFloat16>(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const uint32_t nan = bits | 0x400000;
  return {static_cast<uint16_t>(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16)};
}

// v < 0, for unsigned types, too.
template <typename T>
LEAT_INLINE constexpr bool is_negative(T v) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return v < 0;
}

// Integer arithmetic that wraps around, without the undefined behaviour of signed types. Types of
// less than 32 bits are computed in uint32_t: as operands they would be promoted to int, whose
// product can overflow. The result is the exact one modulo 2 to the width of T. Floats are computed
// as they are.
template <typename T>
using Wrap = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
template <typename T>
LEAT_INLINE T wrap_add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
}
// The functor of Add, Sum and leat.SumTree: they share it so that a sum has the same bits whichever
// of these ops computes it.
struct AddOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    return wrap_add(a, b);
  }
};
// a - b and a * b, as wrap_add(). wrap_sub(T{0}, a) is the negation that is defined for the lowest
// integer, too: the result is the lowest integer again.
template <typename T>
LEAT_INLINE T wrap_sub(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
}
template <typename T>
LEAT_INLINE T wrap_mul(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
}

}  // namespace leat::elementwise
