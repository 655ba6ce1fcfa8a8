// One step of an optimizer for one element: the weight p, the optimizer's slots, and the gradient
// g, all in the type of the arithmetic. As in PyTorch, a weight decay of 0 adds no term, since 0 *
// p would make NaN of an infinite weight; `decay` is whether there is one, which a loop knows
// outside.
//
// Threads: values and pure functions.
#pragma once

#include <cmath>
#include <type_traits>

#include "devices/base/float16.h"
#include "devices/base/inline.h"

namespace leat {

// The type of the arithmetic: T itself, or float for f16 and bf16.
template <typename T>
using Arithmetic = std::conditional_t<std::is_same_v<T, double>, double, float>;

// g' = g + weight_decay * p; p -= lr * g'.
template <typename C>
struct SgdRule {
  C lr, weight_decay;

  LEAT_INLINE C step(C p, C g, bool decay) const {
    if (decay) g = g + weight_decay * p;
    return p - lr * g;
  }
};

// u = momentum * u + g'; p -= lr * u, or, for Nesterov, p -= lr * (g' + momentum * u).
template <typename C>
struct MomentumRule {
  C lr, weight_decay, momentum;
  bool nesterov;

  // Replaces u, and returns the new p.
  LEAT_INLINE C step(C p, C& u, C g, bool decay) const {
    if (decay) g = g + weight_decay * p;
    u = momentum * u + g;
    return p - lr * (nesterov ? g + momentum * u : u);
  }
};

// The attributes of Adam and AdamW. `decoupled` is what separates AdamW from Adam.
struct AdamConstants {
  double weight_decay = 0, beta_1 = 0, beta_2 = 0, epsilon = 0;
  bool decoupled = false;
};

// m = beta_1 m + (1 - beta_1) g; v = beta_2 v + (1 - beta_2) g^2; p -= step_size * m / (sqrt(v) /
// correction_2_root + epsilon).
template <typename C>
struct AdamRule {
  C beta_1, one_minus_beta_1, beta_2, one_minus_beta_2, epsilon;
  C weight_decay;       // Adam: added to the gradient; 0 in AdamW
  C keep;               // AdamW: 1 - lr x weight_decay, multiplied into the weights; 1 in Adam
  C step_size;          // lr / bias_correction_1
  C correction_2_root;  // sqrt(bias_correction_2)

  // The rule of update number t, counted from 1. The bias corrections are computed in double and
  // rounded once.
  LEAT_INLINE static AdamRule of(const AdamConstants& a, double lr, double t) {
    const double correction_1 = 1 - std::pow(a.beta_1, t);
    const double correction_2 = 1 - std::pow(a.beta_2, t);
    AdamRule rule;
    rule.beta_1 = static_cast<C>(a.beta_1);
    rule.one_minus_beta_1 = static_cast<C>(1 - a.beta_1);
    rule.beta_2 = static_cast<C>(a.beta_2);
    rule.one_minus_beta_2 = static_cast<C>(1 - a.beta_2);
    rule.epsilon = static_cast<C>(a.epsilon);
    rule.weight_decay = static_cast<C>(a.decoupled ? 0 : a.weight_decay);
    rule.keep = static_cast<C>(a.decoupled ? 1 - lr * a.weight_decay : 1);
    rule.step_size = static_cast<C>(lr / correction_1);
    rule.correction_2_root = static_cast<C>(std::sqrt(correction_2));
    return rule;
  }

  // Replaces m and v, and returns the new p.
  LEAT_INLINE C step(C p, C& m, C& v, C g, bool decay) const {
    p = p * keep;
    if (decay) g = g + weight_decay * p;
    m = beta_1 * m + one_minus_beta_1 * g;
    v = beta_2 * v + one_minus_beta_2 * g * g;
    const C denominator = std::sqrt(v) / correction_2_root + epsilon;
    return p - step_size * m / denominator;
  }
};

}  // namespace leat
