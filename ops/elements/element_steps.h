// The steps of an elementwise program (ops/definitions/element_program.h), which the kernels of all
// devices share: functors of one or two floats, by number.
//
// Threads: any; nothing here has a state.
#pragma once

#include <cstdint>

#include "devices/base/dtype.h"
#include "ops/elements/activations.h"
#include "ops/elements/arithmetic.h"
#include "ops/elements/element.h"
#include "ops/elements/unary.h"

namespace leat::elementwise {

enum class StepOp : uint8_t {
  convert,
  add,
  sub,
  mul,
  div,
  max,
  min,
  neg,
  abs,
  sqrt,
  exp,
  reciprocal,
  relu,
  relu_grad,
  leaky_relu,
  leaky_relu_grad,
  sigmoid,
  sigmoid_grad,
  tanh,
  tanh_grad,
  gelu,
  gelu_grad,
  tanh_gelu,
  tanh_gelu_grad,
  hard_sigmoid,
  hard_sigmoid_grad,
};

// A conversion: its result is rounded, as that of every step.
struct SameOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return x;
  }
};

// Calls f with the functor of a step.
template <typename F>
LEAT_INLINE void with_functor(StepOp op, F f) {
  switch (op) {
    case StepOp::convert:
      return f(SameOf{});
    case StepOp::add:
      return f(AddOf{});
    case StepOp::sub:
      return f(SubOf{});
    case StepOp::mul:
      return f(MulOf{});
    case StepOp::div:
      return f(DivOf{});
    case StepOp::max:
      return f(MaxOf{});
    case StepOp::min:
      return f(MinOf{});
    case StepOp::neg:
      return f(NegOf{});
    case StepOp::abs:
      return f(AbsOf{});
    case StepOp::sqrt:
      return f(SqrtOf{});
    case StepOp::exp:
      return f(ExpOf{});
    case StepOp::reciprocal:
      return f(ReciprocalOf{});
    case StepOp::relu:
      return f(ReluOf{});
    case StepOp::relu_grad:
      return f(ReluGradOf{});
    case StepOp::leaky_relu:
      return f(LeakyReluOf{});
    case StepOp::leaky_relu_grad:
      return f(LeakyReluGradOf{});
    case StepOp::sigmoid:
      return f(SigmoidOf{});
    case StepOp::sigmoid_grad:
      return f(SigmoidGradOf{});
    case StepOp::tanh:
      return f(TanhOf{});
    case StepOp::tanh_grad:
      return f(TanhGradOf{});
    case StepOp::gelu:
      return f(GeluOf{});
    case StepOp::gelu_grad:
      return f(GeluGradOf{});
    case StepOp::tanh_gelu:
      return f(TanhGeluOf{});
    case StepOp::tanh_gelu_grad:
      return f(TanhGeluGradOf{});
    case StepOp::hard_sigmoid:
      return f(HardSigmoidOf{});
    case StepOp::hard_sigmoid_grad:
      return f(HardSigmoidGradOf{});
  }
}

// The result of a functor of one operand, or of two.
template <typename Functor>
LEAT_INLINE float apply_functor(float a, float b, const double* params) {
  if constexpr (requires { Functor::apply(a, b, params); })
    return Functor::apply(a, b, params);
  else
    return Functor::apply(a, params);
}

// A float after it was stored as that dtype and loaded again.
LEAT_INLINE float rounded_to(DType dtype, float value) {
  if (dtype == DType::bf16) return load(store<BFloat16>(value));
  if (dtype == DType::f16) return load(store<Half>(value));
  return value;
}

}  // namespace leat::elementwise
