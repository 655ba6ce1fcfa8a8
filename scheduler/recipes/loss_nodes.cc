#include "scheduler/recipes/loss_nodes.h"

namespace leat {

ValueId LossNodes::reshape(ValueId value, const std::vector<int64_t>& sizes) {
  const auto rank = static_cast<int64_t>(sizes.size());
  return g.op("Reshape", {value, g.constant(Tensor::of<int64_t>({rank}, sizes))});
}

ValueId LossNodes::sum_each(ValueId each) {
  if (values.weights == kNone) return sum_all(each);
  if (!values.one_per_row) each = over_columns("ReduceSum", reshape(each, {values.rows, -1}));
  return sum_all(g.op("Mul", {each, values.weights}));
}

ValueId LossNodes::mean_of_elements(const std::function<ValueId(ValueId, ValueId)>& each) {
  const ValueId target = cast(values.labels, dtype);
  const ValueId flat = reshape(values.output, {values.rows, -1});
  const ValueId targets = reshape(target, {values.rows, -1});
  return sum_each(over_columns("ReduceMean", each(flat, targets)));
}

ValueId LossNodes::counted() {
  const ValueId labels = cast(values.labels, DType::i64);
  const ValueId ignored = g.constant(Tensor::scalar<int64_t>(*spec.ignore_index));
  return cast(g.op("Not", {g.op("Equal", {labels, ignored})}), dtype);
}

ValueId LossNodes::valid_labels() {
  const ValueId labels = cast(values.labels, DType::i64);
  if (!spec.ignore_index) return labels;
  const ValueId ignored = g.constant(Tensor::scalar<int64_t>(*spec.ignore_index));
  const ValueId first = g.constant(Tensor::scalar<int64_t>(0));
  return g.op("Where", {g.op("Equal", {labels, ignored}), first, labels});
}

// The softmax of the logarithms of probabilities divides them by their sum.
ValueId LossNodes::logits() {
  if (spec.from_logits()) return values.output;
  constexpr double kLeast = 1e-7;
  const auto bound = [&](double value) { return g.scalar(dtype, value); };
  return g.op("Log", {g.op("Clip", {values.output, bound(kLeast), bound(1 - kLeast)})});
}

ValueId LossNodes::class_weights() {
  const auto classes = static_cast<int64_t>(spec.class_weights.size());
  Tensor weights(dtype, Shape{classes});
  for (int64_t c = 0; c < classes; ++c) weights.set(c, spec.class_weights[static_cast<size_t>(c)]);
  return g.constant(std::move(weights));
}

}  // namespace leat
