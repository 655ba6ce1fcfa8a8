// Steps of optimizers, as ONNX's domain ai.onnx.preview.training has them. A node updates several
// tensors: all values, then all gradients, then all of each state.
//
// Source: ONNX's operator reference, Adagrad-1, Adam-1 and Momentum-1.
#include "ops/text/composite_maker.h"

namespace leat {
namespace {

// The operands of one tensor: its value, its gradient and its states, in the type of the value.
struct Updated {
  DraftName x, gradient;
  std::vector<DraftName> states;
};

// Calls update(i, n, tensor) for each of the n tensors of a node. The gradient has `norm` times the
// value added.
template <typename F>
void each_tensor(CompositeMaker& m, int states, double norm, F&& update) {
  const int groups = 2 + states, operands = m.inputs() - 2, n = operands / groups;
  if (operands < groups || operands % groups != 0) {
    m.fail(cat("expected R, T and ", groups, " operands for each tensor, received ", m.inputs(),
               " operands in all"));
    return;
  }
  for (int i = 0; i < n; ++i) {
    Updated tensor{m.in(2 + i), m.in(2 + n + i), {}};
    for (int s = 0; s < states; ++s) tensor.states.push_back(m.in(2 + (2 + s) * n + i));
    if (norm != 0) {
      tensor.gradient =
          m.op("Add", {m.op("Mul", {tensor.x, m.scalar(norm, tensor.x)}), tensor.gradient});
    }
    update(i, n, tensor);
  }
}

DraftName scaled(CompositeMaker& m, const DraftName& x, double factor) {
  return m.op("Mul", {x, m.scalar(factor, x)});
}

// a x + b y.
DraftName mixed(CompositeMaker& m, double a, const DraftName& x, double b, const DraftName& y) {
  return m.op("Add", {scaled(m, x, a), scaled(m, y, b)});
}

// True from the second step on.
DraftName later(CompositeMaker& m) { return m.op("Greater", {m.in(1), m.int_scalar(0)}); }

}  // namespace

void make_adagrad(CompositeMaker& m) {
  const double decay = m.number("decay_factor", 0), epsilon = m.number("epsilon", 1e-6);
  const double norm = m.number("norm_coefficient", 0);
  const DraftName rate = m.in(0), step = m.op("CastLike", {m.in(1), rate});
  const DraftName divisor = m.op("Add", {m.scalar(1, rate), scaled(m, step, decay)});
  const DraftName r = m.op("Div", {rate, divisor});
  each_tensor(m, 1, norm, [&](int i, int n, const Updated& t) {
    const DraftName squares = m.op("Add", {t.states[0], m.op("Mul", {t.gradient, t.gradient})});
    const DraftName root = m.op("Add", {m.op("Sqrt", {squares}), m.scalar(epsilon, squares)});
    const DraftName moved = m.op("Mul", {m.op("CastLike", {r, t.x}), t.gradient});
    m.set_output(i, m.op("Sub", {t.x, m.op("Div", {moved, root})}));
    m.set_output(n + i, squares);
  });
}

void make_adam(CompositeMaker& m) {
  const double alpha = m.number("alpha", 0.9), beta = m.number("beta", 0.999);
  const double epsilon = m.number("epsilon", 1e-6), norm = m.number("norm_coefficient", 0);
  const double after = m.number("norm_coefficient_post", 0);
  const DraftName rate = m.in(0), step = m.op("CastLike", {m.in(1), rate});
  const auto rest_of = [&](double base) {
    return m.op("Sub", {m.scalar(1, rate), m.op("Pow", {m.scalar(base, rate), step})});
  };
  const DraftName adjusted =
      m.op("Div", {m.op("Mul", {rate, m.op("Sqrt", {rest_of(beta)})}), rest_of(alpha)});
  const DraftName r = m.op("Where", {later(m), adjusted, rate});
  each_tensor(m, 2, norm, [&](int i, int n, const Updated& t) {
    const DraftName squared = m.op("Mul", {t.gradient, t.gradient});
    const DraftName mean = mixed(m, alpha, t.states[0], 1 - alpha, t.gradient);
    const DraftName squares = mixed(m, beta, t.states[1], 1 - beta, squared);
    const DraftName root = m.op("Add", {m.op("Sqrt", {squares}), m.scalar(epsilon, squares)});
    const DraftName moved = m.op("Mul", {m.op("CastLike", {r, t.x}), mean});
    DraftName x = m.op("Sub", {t.x, m.op("Div", {moved, root})});
    if (after != 0) x = scaled(m, x, 1 - after);
    m.set_output(i, x);
    m.set_output(n + i, mean);
    m.set_output(2 * n + i, squares);
  });
}

void make_momentum(CompositeMaker& m) {
  const double alpha = m.number("alpha", 0), beta = m.number("beta", 0);
  const double norm = m.number("norm_coefficient", 0);
  const std::string mode = m.text("mode", "");
  if (mode != "standard" && mode != "nesterov")
    m.fail(cat("mode: expected 'standard' or 'nesterov', received '", mode, "'"));
  const DraftName rate = m.in(0);
  // The first step takes the whole gradient.
  const DraftName part = m.op("Where", {later(m), m.scalar(beta, rate), m.scalar(1, rate)});
  each_tensor(m, 1, norm, [&](int i, int n, const Updated& t) {
    const DraftName taken = m.op("Mul", {m.op("CastLike", {part, t.x}), t.gradient});
    const DraftName momentum = m.op("Add", {scaled(m, t.states[0], alpha), taken});
    const DraftName direction =
        mode == "nesterov" ? m.op("Add", {t.gradient, scaled(m, momentum, alpha)}) : momentum;
    const DraftName moved = m.op("Mul", {m.op("CastLike", {rate, t.x}), direction});
    m.set_output(i, m.op("Sub", {t.x, moved}));
    m.set_output(n + i, momentum);
  });
}

}  // namespace leat
