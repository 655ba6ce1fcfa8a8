// The losses that compare each element of the output with a number, and those of whole rows.
#include <numbers>

#include "scheduler/recipes/losses.h"

namespace leat::losses {
namespace {

ValueId mul(LossNodes& n, ValueId a, ValueId b) { return n.g.op("Mul", {a, b}); }
ValueId add(LossNodes& n, ValueId a, ValueId b) { return n.g.op("Add", {a, b}); }
ValueId sub(LossNodes& n, ValueId a, ValueId b) { return n.g.op("Sub", {a, b}); }
// 1 - x.
ValueId rest(LossNodes& n, ValueId x) { return sub(n, n.number(1), x); }

// The cross-entropy of a label y that is 0 or 1 and of a logit x: log(1 + e^x) - x y.
ValueId binary_of_logits(LossNodes& n, ValueId x, ValueId y) {
  return sub(n, n.g.op("Softplus", {x}), mul(n, x, y));
}

// delta-scaled: c * (|d| - c / 2) with c = min(|d|, delta).
ValueId huber_of(LossNodes& n, ValueId x, ValueId y, double delta) {
  const ValueId distance = n.g.op("Abs", {sub(n, x, y)});
  const ValueId near = n.g.op("Min", {distance, n.number(delta)});
  return mul(n, near, sub(n, distance, mul(n, near, n.number(0.5))));
}

// The output and the labels as rows of numbers, [rows, elements].
ValueId rows_of(LossNodes& n, ValueId value) { return n.reshape(value, {n.values.rows, -1}); }

// The length of each row, at least 1e-8.
ValueId length_of(LossNodes& n, ValueId rows) {
  const ValueId squares = n.over_columns("ReduceSum", mul(n, rows, rows));
  return n.g.op("Sqrt", {n.g.op("Max", {squares, n.number(1e-16)})});
}

}  // namespace

ValueId binary_cross_entropy(LossNodes& n) {
  const double weight = n.setting("pos_weight");
  return n.mean_of_elements([&](ValueId x, ValueId y) {
    if (!n.spec.from_logits()) {
      const ValueId p = n.g.op("Clip", {x, n.number(1e-7), n.number(1 - 1e-7)});
      const ValueId hit = mul(n, mul(n, y, n.g.op("Log", {p})), n.number(weight));
      const ValueId miss = mul(n, rest(n, y), n.g.op("Log", {rest(n, p)}));
      return n.g.op("Neg", {add(n, hit, miss)});
    }
    if (weight == 1) return binary_of_logits(n, x, y);
    // (1 - y) x + (1 + (weight - 1) y) log(1 + e^-x).
    const ValueId factor = add(n, mul(n, y, n.number(weight - 1)), n.number(1));
    const ValueId soft = n.g.op("Softplus", {n.g.op("Neg", {x})});
    return add(n, mul(n, rest(n, y), x), mul(n, factor, soft));
  });
}

// Source: Lin and others, Focal Loss for Dense Object Detection (2017).
ValueId focal(LossNodes& n) {
  const double alpha = n.setting("alpha");
  return n.mean_of_elements([&](ValueId x, ValueId y) {
    const ValueId p = n.g.op("Sigmoid", {x});
    const ValueId right = add(n, mul(n, p, y), mul(n, rest(n, p), rest(n, y)));
    ValueId each = mul(n, binary_of_logits(n, x, y),
                       n.g.op("Pow", {rest(n, right), n.number(n.setting("gamma"))}));
    if (alpha < 0) return each;
    const ValueId factor =
        add(n, mul(n, y, n.number(alpha)), mul(n, rest(n, y), n.number(1 - alpha)));
    return mul(n, each, factor);
  });
}

ValueId hinge(LossNodes& n) {
  return n.mean_of_elements([&](ValueId x, ValueId y) {
    const ValueId sign =
        n.g.op("Where", {n.g.op("Greater", {y, n.number(0)}), n.number(1), n.number(-1)});
    return n.g.op("Relu", {rest(n, mul(n, sign, x))});
  });
}

ValueId squared_error(LossNodes& n) {
  const ValueId target = n.cast(n.values.labels, n.dtype);
  const ValueId flat = rows_of(n, n.values.output);
  const ValueId difference = n.g.op("Sub", {flat, rows_of(n, target)});
  return n.sum_each(n.over_columns("ReduceMean", n.g.op("Mul", {difference, difference})));
}

ValueId absolute_error(LossNodes& n) {
  return n.mean_of_elements([&](ValueId x, ValueId y) { return n.g.op("Abs", {sub(n, x, y)}); });
}

ValueId huber(LossNodes& n) {
  return n.mean_of_elements(
      [&](ValueId x, ValueId y) { return huber_of(n, x, y, n.setting("delta")); });
}

ValueId smooth_l1(LossNodes& n) {
  const double beta = n.setting("beta");
  return n.mean_of_elements(
      [&](ValueId x, ValueId y) { return mul(n, huber_of(n, x, y, beta), n.number(1 / beta)); });
}

// log(cosh(d)) = d + log(1 + e^-2d) - log(2), which does not overflow.
ValueId log_cosh(LossNodes& n) {
  return n.mean_of_elements([&](ValueId x, ValueId y) {
    const ValueId d = sub(n, x, y);
    const ValueId soft = n.g.op("Softplus", {mul(n, d, n.number(-2))});
    return sub(n, add(n, d, soft), n.number(std::numbers::ln2));
  });
}

ValueId poisson(LossNodes& n) {
  const bool log_input = n.spec.settings.flag("log_input");
  return n.mean_of_elements([&](ValueId x, ValueId y) {
    if (log_input) return sub(n, n.g.op("Exp", {x}), mul(n, y, x));
    return sub(n, x, mul(n, y, n.g.op("Log", {add(n, x, n.number(1e-8))})));
  });
}

// y log(y) is 0 where y is 0.
ValueId kl_div(LossNodes& n) {
  const ValueId y = rows_of(n, n.cast(n.values.labels, n.dtype));
  const ValueId x = rows_of(n, n.values.output);
  const ValueId own = n.g.op("Log", {n.g.op("Max", {y, n.number(1e-30)})});
  return n.sum_each(n.over_columns("ReduceSum", mul(n, y, sub(n, own, x))));
}

ValueId cosine(LossNodes& n) {
  const ValueId y = rows_of(n, n.cast(n.values.labels, n.dtype));
  const ValueId x = rows_of(n, n.values.output);
  const ValueId product = n.over_columns("ReduceSum", mul(n, x, y));
  const ValueId lengths = mul(n, length_of(n, x), length_of(n, y));
  return n.sum_each(rest(n, n.g.op("Div", {product, lengths})));
}

// max(0, |a - p| - |a - n| + margin), where 1e-6 is added to each difference.
ValueId triplet(LossNodes& n) {
  const ValueId three = n.reshape(n.values.output, {n.values.rows, 3, -1});
  const ValueId sizes = n.g.constant(Tensor::of<int64_t>({3}, {1, 1, 1}));
  const auto parts = n.g.ops("Split", {three, sizes}, {{"axis", int64_t{1}}}, 3);
  const auto distance = [&](ValueId a, ValueId b) {
    const ValueId d = rows_of(n, add(n, sub(n, a, b), n.number(1e-6)));
    return n.g.op("Sqrt", {n.over_columns("ReduceSum", mul(n, d, d))});
  };
  const ValueId near = distance(parts[0], parts[1]), far = distance(parts[0], parts[2]);
  const ValueId each = add(n, sub(n, near, far), n.number(n.setting("margin")));
  return n.sum_each(n.g.op("Relu", {each}));
}

ValueId output(LossNodes& n) {
  const SymbolicShape shape = n.g.graph().value(n.values.output).type.shape;
  // A mean over the rows, times their number.
  if (shape.rank() == 0) {
    return n.g.op("Mul", {n.values.output, n.number(static_cast<double>(n.values.rows))});
  }
  return n.sum_each(n.over_columns("ReduceMean", rows_of(n, n.values.output)));
}

}  // namespace leat::losses
