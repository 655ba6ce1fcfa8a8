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

#include <cstdint>
#include <type_traits>

#include "devices/core/tensor.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/vectorize.h"
#include "ops/elements/element.h"

namespace leat::elementwise {

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

}  // namespace leat::elementwise
