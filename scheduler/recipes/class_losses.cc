// The losses of classes, and of sequences of them.
#include <string>

#include "scheduler/recipes/losses.h"

namespace leat::losses {
namespace {

// The number of classes as a number; 0 if the output does not tell it.
double classes_of(LossNodes& n) {
  const SymbolicShape shape = n.g.graph().value(n.values.output).type.shape;
  if (shape.rank() < 2 || !shape[1].is_constant()) return 0;
  return static_cast<double>(shape[1].factor);
}

// [C] as [1,C,1,...], to be multiplied with the scores.
ValueId along_classes(LossNodes& n, ValueId weights) {
  const SymbolicShape shape = n.g.graph().value(n.values.output).type.shape;
  std::vector<int64_t> sizes(static_cast<size_t>(shape.rank()), 1);
  if (sizes.size() > 1) sizes[1] = -1;
  return n.reshape(weights, sizes);
}

// -sum over the classes of target * log softmax(output), for each label. kNone as the target: 1.
ValueId against(LossNodes& n, ValueId target) {
  ValueId each = n.g.op("LogSoftmax", {n.logits()}, {{"axis", int64_t{1}}});
  if (!n.spec.class_weights.empty())
    each = n.g.op("Mul", {each, along_classes(n, n.class_weights())});
  if (target != kNone) each = n.g.op("Mul", {each, target});
  return n.g.op("Neg", {n.over_columns("ReduceSum", each)});
}

// The target of a class is (1 - smoothing) * probability + smoothing / C.
ValueId of_probabilities(LossNodes& n) {
  ValueId target = n.cast(n.values.labels, n.dtype);
  if (const double smoothing = n.setting("label_smoothing"); smoothing > 0) {
    target = n.g.op("Mul", {target, n.number(1 - smoothing)});
    target = n.g.op("Add", {target, n.number(smoothing / classes_of(n))});
  }
  return n.sum_each(against(n, target));
}

// The loss of each label, with weights of classes or smoothing.
ValueId of_weighted_classes(LossNodes& n) {
  const double smoothing = n.setting("label_smoothing");
  Attrs attrs{{"reduction", std::string("none")}};
  if (n.spec.ignore_index) attrs["ignore_index"] = *n.spec.ignore_index;
  std::vector<ValueId> operands{n.logits(), n.cast(n.values.labels, DType::i64)};
  if (!n.spec.class_weights.empty()) operands.push_back(n.class_weights());
  ValueId each = n.g.op("SoftmaxCrossEntropyLoss", operands, attrs);
  if (smoothing == 0) return each;
  ValueId smooth = n.g.op("Mul", {against(n, kNone), n.number(smoothing / classes_of(n))});
  if (n.spec.ignore_index) smooth = n.g.op("Mul", {smooth, n.counted()});
  return n.g.op("Add", {n.g.op("Mul", {each, n.number(1 - smoothing)}), smooth});
}

}  // namespace

ValueId cross_entropy(LossNodes& n) {
  if (n.spec.soft_labels()) return of_probabilities(n);
  if (!n.spec.class_weights.empty() || n.setting("label_smoothing") > 0)
    return n.sum_each(of_weighted_classes(n));
  const ValueId labels = n.cast(n.values.labels, DType::i64);
  // With weights of rows the loss of each label is needed, so that rows past the end can be
  // multiplied by 0.
  const bool weighted = n.values.weights != kNone;
  Attrs attrs{{"reduction", std::string(weighted ? "none" : "sum")}};
  if (n.spec.ignore_index) attrs["ignore_index"] = *n.spec.ignore_index;
  const ValueId loss = n.g.op("SoftmaxCrossEntropyLoss", {n.logits(), labels}, attrs);
  return weighted ? n.sum_each(loss) : loss;
}

// Of each row the loss divided by the length of its labels, or 1, as torch.nn.CTCLoss has it.
ValueId ctc(LossNodes& n) {
  const int64_t rows = n.values.rows;
  ValueId x = n.values.output;
  if (n.spec.settings.flag("time_major"))
    x = n.g.op("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  // The logarithms of probabilities are those of their own softmax.
  x = n.g.op("LogSoftmax", {x}, {{"axis", int64_t{2}}});
  const auto lengths = [&](ValueId column) {
    return column == kNone ? kNone : n.reshape(n.cast(column, DType::i64), {rows});
  };
  const ValueId labels = n.reshape(n.cast(n.values.labels, DType::i64), {rows, -1});
  ValueId count = lengths(n.values.label_lengths);
  if (n.spec.ignore_index) {
    const ValueId counted = n.reshape(n.counted(), {rows, -1});
    count = n.cast(n.over_columns("ReduceSum", counted), DType::i64);
  }
  const ValueId each = n.g.op("leat.CtcLoss", {x, labels, lengths(n.values.input_lengths), count},
                              {{"blank", n.spec.settings.integer("blank")},
                               {"zero_infinity", int64_t{n.spec.settings.flag("zero_infinity")}}});
  if (!n.g.status().ok()) return each;
  if (count == kNone) {
    const Dim size = n.g.graph().value(labels).type.shape[1];
    const double all = size.is_constant() ? static_cast<double>(size.factor) : 1;
    return n.sum_each(n.g.op("Div", {each, n.number(all < 1 ? 1 : all)}));
  }
  const ValueId least = n.g.op("Max", {n.cast(count, n.dtype), n.number(1)});
  return n.sum_each(n.g.op("Div", {each, least}));
}

}  // namespace leat::losses
