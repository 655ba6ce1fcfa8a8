// The activations of recurrent cells, which CPUs and GPUs share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "devices/base/inline.h"
#include "ops/elements/vector_math.h"

namespace leat {

// A function of one number. Its derivative follows from its value.
struct CellActivation {
  enum Kind : uint8_t {
    sigmoid,
    tanh,
    relu,
    affine,            // alpha x + beta
    leaky_relu,        // x if x >= 0, else alpha x
    thresholded_relu,  // x if x > alpha, else 0
    scaled_tanh,       // alpha tanh(beta x)
    hard_sigmoid,      // min(max(alpha x + beta, 0), 1)
    elu,               // x if x >= 0, else alpha (e^x - 1)
    softsign,          // x / (1 + |x|)
    softplus,          // log(1 + e^x)
  } kind = tanh;
  double alpha = 0, beta = 0;
};

// Calls use(of), where of(x) is the activation of a T.
template <typename T, typename Use>
LEAT_INLINE void with_activation(const CellActivation& f, Use&& use) {
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  switch (f.kind) {
    case CellActivation::sigmoid:
      return use([](T v) { return vmath::sigmoid(v); });
    case CellActivation::tanh:
      return use([](T v) { return vmath::tanh(v); });
    case CellActivation::relu:
      return use([](T v) { return v > 0 ? v : T(0); });
    case CellActivation::affine:
      return use([=](T v) { return a * v + b; });
    case CellActivation::leaky_relu:
      return use([=](T v) { return v >= 0 ? v : a * v; });
    case CellActivation::thresholded_relu:
      return use([=](T v) { return v > a ? v : T(0); });
    case CellActivation::scaled_tanh:
      return use([=](T v) { return a * vmath::tanh(b * v); });
    case CellActivation::hard_sigmoid:
      return use([=](T v) {
        const T line = a * v + b;
        return line < 0 ? T(0) : line > 1 ? T(1) : line;
      });
    case CellActivation::elu:
      return use([=](T v) { return v >= 0 ? v : a * (vmath::exp(v) - 1); });
    case CellActivation::softsign:
      return use([](T v) { return v / (1 + std::abs(v)); });
    case CellActivation::softplus:
      return use([](T v) { return std::max(v, T(0)) + std::log1p(std::exp(-std::abs(v))); });
  }
}

// Calls use(of), where of(y) is the derivative of the activation where its value is y.
template <typename T, typename Use>
LEAT_INLINE void with_derivative(const CellActivation& f, Use&& use) {
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  switch (f.kind) {
    case CellActivation::sigmoid:
      return use([](T v) { return v * (1 - v); });
    case CellActivation::tanh:
      return use([](T v) { return 1 - v * v; });
    case CellActivation::relu:
    case CellActivation::thresholded_relu:
      return use([](T v) { return v > 0 ? T(1) : T(0); });
    case CellActivation::affine:
      return use([=](T) { return a; });
    case CellActivation::leaky_relu:
      return use([=](T v) { return v >= 0 ? T(1) : a; });
    case CellActivation::scaled_tanh:
      return use([=](T v) { return a == 0 ? T(0) : b * (a - v * v / a); });
    case CellActivation::hard_sigmoid:
      return use([=](T v) { return v > 0 && v < 1 ? a : T(0); });
    case CellActivation::elu:
      return use([=](T v) { return v >= 0 ? T(1) : v + a; });
    case CellActivation::softsign:
      return use([](T v) { return (1 - std::abs(v)) * (1 - std::abs(v)); });
    case CellActivation::softplus:
      return use([](T v) { return 1 - std::exp(-v); });
  }
}

}  // namespace leat
