#include "scheduler/recipes/metric_nodes.h"

#include <algorithm>

namespace leat {
namespace {

int64_t size_of(GraphBuilder& g, ValueId value, int axis) {
  if (!g.status().ok()) return 1;
  const SymbolicShape& shape = g.graph().value(value).type.shape;
  return axis < shape.rank() && shape[axis].is_constant() ? shape[axis].factor : 1;
}

}  // namespace

int64_t MetricNodes::classes() { return is_binary() ? 2 : size_of(g, scores(), 1); }

ValueId MetricNodes::scores() {
  if (scores_ != kNone || !g.status().ok()) return scores_;
  const ValueId output = to_f64(loss_.values.output);
  if (is_binary()) return scores_ = reshape(output, {-1, 1});
  if (!g.status().ok() || g.graph().value(output).type.shape.rank() <= 2) return scores_ = output;
  // [N,C,...] becomes [N,...,C].
  const int64_t count = size_of(g, output, 1);
  const ValueId flat = reshape(output, {loss_.values.rows, count, -1});
  const ValueId last = g.op("Transpose", {flat}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  return scores_ = reshape(last, {-1, count});
}

ValueId MetricNodes::probabilities() {
  const ValueId x = scores();
  if (!loss_.spec.from_logits()) return x;
  return is_binary() ? g.op("Sigmoid", {x}) : g.op("Softmax", {x}, {{"axis", int64_t{1}}});
}

ValueId MetricNodes::logits() {
  if (loss_.spec.from_logits()) return scores();
  return g.op("Log", {g.op("Clip", {scores(), number(1e-7), number(1 - 1e-7)})});
}

ValueId MetricNodes::labels() {
  if (labels_ != kNone) return labels_;
  ValueId labels = kNone;
  if (is_binary()) {
    const ValueId above = g.op("Greater", {to_f64(loss_.values.labels), number(0)});
    labels = loss_.cast(above, DType::i64);
  } else if (loss_.spec.soft_labels()) {
    labels =
        g.op("ArgMax", {loss_.values.labels}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  } else {
    labels = loss_.valid_labels();
  }
  return labels_ = reshape(labels, {-1, 1});
}

// The weight of a row for each of its labels.
ValueId MetricNodes::weights_of_labels(int64_t each) {
  const auto ones = [&](const Shape& shape) {
    Tensor values(DType::f64, shape);
    for (int64_t i = 0; i < values.elements(); ++i) values.set(i, 1);
    return g.constant(std::move(values));
  };
  if (loss_.values.weights == kNone) return ones(Shape{loss_.values.rows * each, 1});
  const ValueId weights = to_f64(reshape(loss_.values.weights, {loss_.values.rows, 1}));
  if (each == 1) return weights;
  return reshape(mul(weights, ones(Shape{1, each})), {-1, 1});
}

ValueId MetricNodes::counts() {
  if (counts_ != kNone) return counts_;
  const int64_t each = size_of(g, scores(), 0) / loss_.values.rows;
  counts_ = weights_of_labels(std::max<int64_t>(each, 1));
  if (loss_.spec.ignore_index) counts_ = mul(counts_, reshape(to_f64(loss_.counted()), {-1, 1}));
  return counts_;
}

ValueId MetricNodes::hot(ValueId classes_of_rows) {
  const int64_t count = classes();
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (size_t c = 0; c < numbers.size(); ++c) numbers[c] = static_cast<int64_t>(c);
  const ValueId all = g.constant(Tensor::of<int64_t>({1, count}, numbers));
  return to_f64(g.op("Equal", {classes_of_rows, all}));
}

ValueId MetricNodes::hot_labels() {
  if (hot_labels_ == kNone) hot_labels_ = hot(labels());
  return hot_labels_;
}

ValueId MetricNodes::hot_predictions() {
  if (hot_predictions_ != kNone) return hot_predictions_;
  ValueId predicted = kNone;
  if (is_binary()) {
    const double threshold = loss_.spec.from_logits() ? 0 : 0.5;
    predicted = loss_.cast(g.op("Greater", {scores(), number(threshold)}), DType::i64);
  } else {
    predicted = g.op("ArgMax", {scores()}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
  }
  return hot_predictions_ = hot(predicted);
}

// [rows,P], with -1 for labels that are ignored.
ValueId MetricNodes::sequence_of_classes(ValueId values) {
  const ValueId rows = reshape(values, {loss_.values.rows, -1});
  if (!loss_.spec.ignore_index) return rows;
  const ValueId counted =
      reshape(loss_.cast(loss_.counted(), DType::boolean), {loss_.values.rows, -1});
  return g.op("Where", {counted, rows, g.constant(Tensor::scalar<int64_t>(-1))});
}

// Of [rows,P] the first elements of each row, and -1 behind them.
ValueId MetricNodes::up_to(ValueId values, ValueId lengths) {
  if (lengths == kNone) return values;
  const int64_t size = size_of(g, values, 1);
  std::vector<int64_t> places(static_cast<size_t>(size));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  const ValueId all = g.constant(Tensor::of<int64_t>({1, size}, places));
  const ValueId length = reshape(loss_.cast(lengths, DType::i64), {loss_.values.rows, 1});
  return g.op("Where",
              {g.op("Less", {all, length}), values, g.constant(Tensor::scalar<int64_t>(-1))});
}

ValueId MetricNodes::edits(int64_t separator) {
  Attrs attrs{{"separator", separator}};
  const int64_t rows = loss_.values.rows;
  if (loss_.spec.labels() == Labels::classes) {
    const ValueId best =
        g.op("ArgMax", {scores()}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
    const ValueId made = sequence_of_classes(best), wanted = sequence_of_classes(labels());
    return g.op("leat.EditDistance", {made, wanted}, std::move(attrs));
  }
  // The most probable path of a CTC loss, without repetitions and blanks.
  const SettingValues& of_loss = loss_.spec.settings;
  ValueId output = loss_.values.output;
  if (of_loss.flag("time_major"))
    output = g.op("Transpose", {output}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  const ValueId path = g.op("ArgMax", {output}, {{"axis", int64_t{2}}, {"keepdims", int64_t{0}}});
  ValueId wanted = reshape(loss_.cast(loss_.values.labels, DType::i64), {rows, -1});
  if (loss_.spec.ignore_index) {
    const ValueId ignored = g.constant(Tensor::scalar<int64_t>(*loss_.spec.ignore_index));
    const ValueId none = g.constant(Tensor::scalar<int64_t>(-1));
    wanted = g.op("Where", {g.op("Equal", {wanted, ignored}), none, wanted});
  }
  attrs["blank"] = of_loss.integer("blank");
  const ValueId made = up_to(path, loss_.values.input_lengths);
  return g.op("leat.EditDistance", {made, up_to(wanted, loss_.values.label_lengths)},
              std::move(attrs));
}

ValueId MetricNodes::outputs() {
  return to_f64(reshape(loss_.values.output, {loss_.values.rows, -1}));
}

ValueId MetricNodes::targets() {
  return reshape(to_f64(loss_.values.labels), {loss_.values.rows, -1});
}

ValueId MetricNodes::rows() { return weights_of_labels(1); }

ValueId MetricNodes::down(ValueId value) {
  const ValueId sum = g.op("ReduceSum", {value, g.constant(Tensor::of<int64_t>({1}, {0}))},
                           {{"keepdims", int64_t{0}}});
  return reshape(sum, {-1});
}

}  // namespace leat
