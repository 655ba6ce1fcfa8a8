#include "scheduler/graph/batch_loss.h"

#include <string>
#include <vector>

#include "ops/definitions/input.h"
#include "ops/definitions/row_shape.h"

namespace leat {

BatchLoss::BatchLoss(GraphBuilder& g, const TrainSpec& spec, ClassLayout layout, BatchValues values)
    : g_(g), spec_(spec), values_(values), rows_(spec.global_batch / spec.shards) {
  if (g_.status().ok() && spec_.loss.kind == LossKind::cross_entropy) fit_classes(layout);
}

ValueId BatchLoss::reshape(ValueId value, std::vector<int64_t> sizes) {
  const auto rank = static_cast<int64_t>(sizes.size());
  return g_.op("Reshape", {value, g_.constant(Tensor::of<int64_t>({rank}, sizes))});
}

// Brings output and labels to the shapes that the loss op wants: classes along axis 1, and labels
// of the output's shape without that axis.
void BatchLoss::fit_classes(ClassLayout layout) {
  const SymbolicShape shape = g_.graph().value(values_.output).type.shape;
  const SymbolicShape labels = g_.graph().value(values_.labels).type.shape;
  positions_ = layout.positions;
  if (layout.last) {
    // Every position of every row is a row of its own: the bytes stay where they are.
    const Dim classes = shape[shape.rank() - 1];
    const int64_t last = classes.is_constant() ? classes.factor : -1;
    values_.output = reshape(values_.output, {rows_ * positions_, last});
    values_.labels = reshape(values_.labels, {rows_ * positions_});
    one_per_row_ = positions_ == 1;
    return;
  }
  one_per_row_ = shape.rank() <= 2;
  if (shape.rank() < 2 || labels.rank() == shape.rank() - 1) return;
  // [N,1] may have the labels of [N,10].
  const auto row = Shape(labels.concrete().value_or(Shape()));
  const Shape label(row.rank() > 0 ? row.dims().subspan(1) : row.dims());
  if (!fits_row(label, shape, 2)) return;
  std::vector<int64_t> sizes{rows_};
  for (const int64_t size : row_shape(label, shape, 2)) sizes.push_back(size);
  values_.labels = reshape(values_.labels, std::move(sizes));
}

// The sum of a value that each label has, without the rows past the end of the data.
ValueId BatchLoss::sum_each(ValueId each) {
  if (values_.weights == kNone) return sum_all(each);
  if (!one_per_row_) {
    each =
        g_.op("ReduceSum", {reshape(each, {rows_, -1}), g_.constant(Tensor::of<int64_t>({1}, {1}))},
              {{"keepdims", int64_t{0}}});
  }
  return sum_all(g_.op("Mul", {each, values_.weights}));
}

// 1 for each label that counts, 0 for one that is ignored.
ValueId BatchLoss::counted() {
  const ValueId labels = cast(values_.labels, DType::i64);
  const ValueId ignored = g_.constant(Tensor::scalar<int64_t>(*spec_.loss.ignore_index));
  return cast(g_.op("Not", {g_.op("Equal", {labels, ignored})}), spec_.precision);
}

// The softmax of the logarithms of probabilities divides them by their sum.
ValueId BatchLoss::logits() {
  if (spec_.loss.from_logits) return values_.output;
  constexpr double kLeast = 1e-7;
  const auto bound = [&](double value) { return g_.scalar(spec_.precision, value); };
  return g_.op("Log", {g_.op("Clip", {values_.output, bound(kLeast), bound(1 - kLeast)})});
}

ValueId BatchLoss::cross_entropy() {
  const ValueId labels = cast(values_.labels, DType::i64);
  // With weights the loss of each label is needed, so that rows past the end can be multiplied by
  // 0.
  const bool weighted = values_.weights != kNone;
  Attrs attrs{{"reduction", std::string(weighted ? "none" : "sum")}};
  if (spec_.loss.ignore_index) attrs["ignore_index"] = *spec_.loss.ignore_index;
  const ValueId loss = g_.op("SoftmaxCrossEntropyLoss", {logits(), labels}, attrs);
  return weighted ? sum_each(loss) : loss;
}

// Of each row the mean over its elements of (output - target)^2, then the sum over the rows. Both
// are brought to [rows, elements] first, since labels may have another rank.
ValueId BatchLoss::squared_error() {
  const ValueId target = cast(values_.labels, spec_.precision);
  const ValueId flat = reshape(values_.output, {rows_, -1});
  const ValueId difference = g_.op("Sub", {flat, reshape(target, {rows_, -1})});
  const ValueId each =
      g_.op("ReduceMean",
            {g_.op("Mul", {difference, difference}), g_.constant(Tensor::of<int64_t>({1}, {1}))},
            {{"keepdims", int64_t{0}}});
  return sum_each(each);
}

ValueId BatchLoss::loss_output() {
  const SymbolicShape shape = g_.graph().value(values_.output).type.shape;
  // A mean over the rows, times their number.
  if (shape.rank() == 0) {
    return g_.op("Mul", {values_.output, g_.scalar(spec_.precision, static_cast<double>(rows_))});
  }
  const ValueId each =
      g_.op("ReduceMean",
            {reshape(values_.output, {rows_, -1}), g_.constant(Tensor::of<int64_t>({1}, {1}))},
            {{"keepdims", int64_t{0}}});
  return sum_each(each);
}

ValueId BatchLoss::sum() {
  switch (spec_.loss.kind) {
    case LossKind::cross_entropy:
      return cross_entropy();
    case LossKind::mse:
      return squared_error();
    case LossKind::output:
      return loss_output();
  }
  return kNone;
}

int64_t BatchLoss::per_row() const {
  return spec_.loss.kind == LossKind::cross_entropy ? positions_ : 1;
}

ValueId BatchLoss::count() {
  if (counts_labels()) return sum_each(counted());
  const double each = static_cast<double>(per_row());
  if (values_.weights == kNone)
    return g_.scalar(spec_.precision, each * static_cast<double>(rows_));
  const ValueId rows = sum_all(values_.weights);
  return per_row() == 1 ? rows : g_.op("Mul", {rows, g_.scalar(spec_.precision, each)});
}

// The class with the largest output along axis 1. The hits are added as numbers of the precision.
ValueId BatchLoss::correct() {
  const ValueId labels = cast(values_.labels, DType::i64);
  const ValueId predicted =
      g_.op("ArgMax", {values_.output}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  const ValueId hits = cast(g_.op("Equal", {predicted, labels}), spec_.precision);
  return sum_each(counts_labels() ? g_.op("Mul", {hits, counted()}) : hits);
}

}  // namespace leat
