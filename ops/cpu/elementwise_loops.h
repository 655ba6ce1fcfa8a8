// Inner loops of elementwise kernels, made from functors. A functor is a struct with a static
// function `apply` over one or two elements and the op's attributes; the templates below make a
// Loop (see elementwise.h) of it for each dtype:
//
//   struct ScaleOf {
//     template <typename T>
//     LEAT_INLINE static T apply(T a, const double* p) { return a * static_cast<T>(p[0]); }
//   };
//   LEAT_FAST_UNARY(scale_f32, ScaleOf)
//   catalogue.add_kernel("Scale", "cpu",
//                        loop_kernel(unary_floats<ScaleOf>, scale_f32, {"factor"}));
//
// f16 and bf16 are computed in float, and each result is rounded once. Loops that gain from it are
// compiled for each vector width, and the loader chooses one (LEAT_VECTOR_CLONES). These are plain
// functions, because a template cannot have clones.
//
// Threads: any; the loops have no state. Element i of a result depends on element i of each operand
// alone, and multiplications and additions are never contracted to FMA, so neither tiles nor the
// vector width can change a bit.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "devices/core/tensor.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/vectorize.h"

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

// The loop of a functor over one operand: T is the dtype of the operand and Y that of the result.
// It has the signature of Loop once F, T and Y are given. The operand may be broadcast (step 0) or
// strided; step 1 has a loop of its own, which the compiler vectorizes. With step 1 the result may
// be the same memory as the operand; overlap in any other way is undefined, because LEAT_NO_OVERLAP
// promises that there is none.
template <typename F, typename T, typename Y = T>
LEAT_INLINE void unary_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                            const double* p) {
  Y* y = static_cast<Y*>(out);
  const T* a = static_cast<const T*>(x[0]);
  if (steps[0] == 1) {
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) y[i] = store<Y>(F::apply(load(a[i]), p));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<Y>(F::apply(load(a[i * steps[0]]), p));
  }
}

// The loop of a functor over two operands of the same dtype T. The three frequent cases vectorize:
// both operands contiguous, and one of them contiguous with the other a single value, which is
// loaded once. All other steps take the last loop. All four compute the same elements with the same
// bits. The result may be the same memory as an operand of step 1.
template <typename F, typename T, typename Y = T>
LEAT_INLINE void binary_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                             const double* p) {
  Y* y = static_cast<Y*>(out);
  const T* a = static_cast<const T*>(x[0]);
  const T* b = static_cast<const T*>(x[1]);
  const int64_t sa = steps[0], sb = steps[1];
  if (sa == 1 && sb == 1) {
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) y[i] = store<Y>(F::apply(load(a[i]), load(b[i]), p));
  } else if (sa == 1 && sb == 0) {
    const Compute<T> v = load(b[0]);
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) y[i] = store<Y>(F::apply(load(a[i]), v, p));
  } else if (sa == 0 && sb == 1) {
    const Compute<T> v = load(a[0]);
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) y[i] = store<Y>(F::apply(v, load(b[i]), p));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<Y>(F::apply(load(a[i * sa]), load(b[i * sb]), p));
  }
}

// The loop of functor F for `dtype`, which must be f32, f64, f16 or bf16; null for any other, which
// make_elementwise() reports as unimplemented. `fast` is the cloned f32 loop, which LEAT_FAST_UNARY
// makes; null: the template's own instance, compiled for the baseline. The other dtypes always have
// the instance of the baseline. These functions fit the argument `pick` of loop_kernel().
template <typename F>
Loop unary_floats(DType dtype, Loop fast = nullptr) {
  switch (dtype) {
    case DType::f32:
      return fast ? fast : unary_loop<F, float>;
    case DType::f64:
      return unary_loop<F, double>;
    case DType::f16:
      return unary_loop<F, Half>;
    case DType::bf16:
      return unary_loop<F, BFloat16>;
    default:
      return nullptr;
  }
}
// The same for the signed integers, too: i8, i16, i32 and i64. F::apply gets the integers in their
// own width, so a functor that adds or negates must use the wrapping functions below.
template <typename F>
Loop unary_signed(DType dtype, Loop fast = nullptr) {
  switch (dtype) {
    case DType::i8:
      return unary_loop<F, int8_t>;
    case DType::i16:
      return unary_loop<F, int16_t>;
    case DType::i32:
      return unary_loop<F, int32_t>;
    case DType::i64:
      return unary_loop<F, int64_t>;
    default:
      return unary_floats<F>(dtype, fast);
  }
}
// The same for all numbers: also u8, u16, u32 and u64. bool has no loop in any of these functions.
template <typename F>
Loop unary_numbers(DType dtype, Loop fast = nullptr) {
  switch (dtype) {
    case DType::u8:
      return unary_loop<F, uint8_t>;
    case DType::u16:
      return unary_loop<F, uint16_t>;
    case DType::u32:
      return unary_loop<F, uint32_t>;
    case DType::u64:
      return unary_loop<F, uint64_t>;
    default:
      return unary_signed<F>(dtype, fast);
  }
}
// The loop of a functor of two operands for `dtype`, the dtype of both of them and of the result.
// `fast` is made by LEAT_FAST_BINARY. Null for a dtype that is no float.
template <typename F>
Loop binary_floats(DType dtype, Loop fast = nullptr) {
  switch (dtype) {
    case DType::f32:
      return fast ? fast : binary_loop<F, float>;
    case DType::f64:
      return binary_loop<F, double>;
    case DType::f16:
      return binary_loop<F, Half>;
    case DType::bf16:
      return binary_loop<F, BFloat16>;
    default:
      return nullptr;
  }
}
// The same for all integers, too, signed and unsigned, of 8 to 64 bits.
template <typename F>
Loop binary_numbers(DType dtype, Loop fast = nullptr) {
  switch (dtype) {
    case DType::i8:
      return binary_loop<F, int8_t>;
    case DType::i16:
      return binary_loop<F, int16_t>;
    case DType::i32:
      return binary_loop<F, int32_t>;
    case DType::i64:
      return binary_loop<F, int64_t>;
    case DType::u8:
      return binary_loop<F, uint8_t>;
    case DType::u16:
      return binary_loop<F, uint16_t>;
    case DType::u32:
      return binary_loop<F, uint32_t>;
    case DType::u64:
      return binary_loop<F, uint64_t>;
    default:
      return binary_floats<F>(dtype, fast);
  }
}

// Defines the cloned f32 loop `name` of functor F, as a function with the signature of Loop. It is
// used in a .cc file, inside of an anonymous namespace, once for each functor; F must be complete
// there and must be inlined whole (LEAT_INLINE), or a call to baseline code remains in every clone.
#define LEAT_FAST_UNARY(name, F)                                                           \
  LEAT_VECTOR_CLONES void name(void* y, const void* const* x, const int64_t* s, int64_t n, \
                               const double* p) {                                          \
    ::leat::elementwise::unary_loop<F, float>(y, x, s, n, p);                              \
  }
// The same for a functor of two operands.
#define LEAT_FAST_BINARY(name, F)                                                          \
  LEAT_VECTOR_CLONES void name(void* y, const void* const* x, const int64_t* s, int64_t n, \
                               const double* p) {                                          \
    ::leat::elementwise::binary_loop<F, float>(y, x, s, n, p);                             \
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
