// Inner loops of elementwise kernels, made from functors: struct Add { static T apply(T a, T b, p);
// }. f16 and bf16 are computed in float. Loops that gain from it are compiled for each vector
// width, and the loader chooses one (LEAT_VECTOR_CLONES). These are plain functions, because a
// template cannot have clones.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "devices/core/tensor.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/vectorize.h"

namespace leat::elementwise {

// The type for computations with T, and the conversions from T and to T.
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
template <typename T>
using Compute = typename ComputeOf<T>::type;

template <typename T>
LEAT_INLINE Compute<T> load(T v) {
  return v;
}
template <>
LEAT_INLINE float load(Half v) {
  return to_float(v);
}
template <>
LEAT_INLINE float load(BFloat16 v) {
  return std::bit_cast<float>(uint32_t{v.bits} << 16);
}

template <typename T>
LEAT_INLINE T store(Compute<T> v) {
  return v;
}
template <>
LEAT_INLINE Half store<Half>(float v) {
  return to_half(v);
}
template <>
LEAT_INLINE BFloat16 store<BFloat16>(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const uint32_t nan = bits | 0x400000;
  return {static_cast<uint16_t>(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16)};
}

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

// The loop of functor F for `dtype`; null if F does not support it. `fast` is the cloned f32 loop,
// if there is one.
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

// A cloned f32 loop of functor F.
#define LEAT_FAST_UNARY(name, F)                                                           \
  LEAT_VECTOR_CLONES void name(void* y, const void* const* x, const int64_t* s, int64_t n, \
                               const double* p) {                                          \
    ::leat::elementwise::unary_loop<F, float>(y, x, s, n, p);                              \
  }
#define LEAT_FAST_BINARY(name, F)                                                          \
  LEAT_VECTOR_CLONES void name(void* y, const void* const* x, const int64_t* s, int64_t n, \
                               const double* p) {                                          \
    ::leat::elementwise::binary_loop<F, float>(y, x, s, n, p);                             \
  }

// Integer arithmetic that wraps around, without the undefined behaviour of signed types.
template <typename T>
using Wrap = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
template <typename T>
LEAT_INLINE T wrap_add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
}
struct AddOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    return wrap_add(a, b);
  }
};
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
