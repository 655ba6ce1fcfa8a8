#include "scheduler/graph/batch_loss.h"

#include <vector>

#include "devices/base/text.h"
#include "ops/definitions/input.h"
#include "ops/definitions/row_shape.h"

namespace leat {

Result<ClassLayout> layout_of(const LossSpec& loss, const ColumnInfo& labels,
                              const SymbolicShape& output) {
  if (!loss.soft_labels()) {
    LEAT_ASSIGN_OR_RETURN(const ClassLayout layout, class_layout(labels, output));
    const Dim classes = output.rank() < 2 ? Dim() : output[layout.last ? output.rank() - 1 : 1];
    const auto weights = static_cast<int64_t>(loss.class_weights.size());
    if (weights == 0 || !classes.is_constant() || classes.factor == weights) return layout;
    return invalid_argument(cat("loss: class_weights: expected ", classes.factor,
                                ", one for each class, received ", weights));
  }
  if (output.rank() < 2 || !output[1].is_constant() || output[1].factor < 1) {
    return invalid_argument(cat("column '", labels.name, "': soft labels: expected an output with ",
                                "classes along axis 1, received one without"));
  }
  return ClassLayout{false, labels.shape.elements() / output[1].factor};
}

BatchLoss::BatchLoss(GraphBuilder& g, const TrainSpec& spec, const LossSpec& loss_spec,
                     ClassLayout layout, BatchValues values)
    : g_(g),
      spec_(spec),
      loss_(loss_spec),
      nodes_(g, loss_spec, spec.precision,
             {.output = values.output,
              .labels = values.labels.labels,
              .input_lengths = values.labels.input_lengths,
              .label_lengths = values.labels.label_lengths,
              .weights = values.weights,
              .rows = spec.global_batch / spec.shards}) {
  if (!g_.status().ok() || loss().labels() != Labels::classes) return;
  nodes_.values.positions = layout.positions;
  if (loss().soft_labels())
    fit_soft_labels();
  else
    fit_classes(layout);
}

// Brings output and labels to the shapes that the loss op wants: classes along axis 1, and labels
// of the output's shape without that axis.
void BatchLoss::fit_classes(ClassLayout layout) {
  LossValues& values = nodes_.values;
  const SymbolicShape shape = g_.graph().value(values.output).type.shape;
  const SymbolicShape labels = g_.graph().value(values.labels).type.shape;
  if (layout.last) {
    // Every position of every row is a row of its own: the bytes stay where they are.
    const Dim classes = shape[shape.rank() - 1];
    const int64_t last = classes.is_constant() ? classes.factor : -1;
    values.output = nodes_.reshape(values.output, {values.rows * values.positions, last});
    values.labels = nodes_.reshape(values.labels, {values.rows * values.positions});
    values.one_per_row = values.positions == 1;
    return;
  }
  values.one_per_row = shape.rank() <= 2;
  if (shape.rank() < 2 || labels.rank() == shape.rank() - 1) return;
  // [N,1] may have the labels of [N,10].
  const auto row = Shape(labels.concrete().value_or(Shape()));
  const Shape label(row.rank() > 0 ? row.dims().subspan(1) : row.dims());
  if (!fits_row(label, shape, 2)) return;
  std::vector<int64_t> sizes{values.rows};
  for (const int64_t size : row_shape(label, shape, 2)) sizes.push_back(size);
  values.labels = nodes_.reshape(values.labels, sizes);
}

// The labels get the shape of the output: [N,C,positions], or [N,C].
void BatchLoss::fit_soft_labels() {
  LossValues& values = nodes_.values;
  const SymbolicShape shape = g_.graph().value(values.output).type.shape;
  std::vector<int64_t> sizes{values.rows, shape[1].factor};
  values.one_per_row = shape.rank() == 2;
  if (!values.one_per_row) sizes.push_back(-1);
  values.output = nodes_.reshape(values.output, sizes);
  values.labels = nodes_.reshape(values.labels, sizes);
}

ValueId BatchLoss::count() {
  if (!weighs_labels()) return labels();
  ValueId each =
      g_.op("Gather", {nodes_.class_weights(), nodes_.valid_labels()}, {{"axis", int64_t{0}}});
  if (loss().ignore_index) each = g_.op("Mul", {each, nodes_.counted()});
  return nodes_.sum_each(each);
}

ValueId BatchLoss::labels() {
  if (ignores_labels()) return nodes_.sum_each(nodes_.counted());
  const LossValues& values = nodes_.values;
  const double each = static_cast<double>(per_row());
  if (values.weights == kNone)
    return g_.scalar(spec_.precision, each * static_cast<double>(values.rows));
  const ValueId rows = nodes_.sum_all(values.weights);
  return per_row() == 1 ? rows : g_.op("Mul", {rows, g_.scalar(spec_.precision, each)});
}

// For each row the fraction of its elements whose side is that of the label.
ValueId BatchLoss::predicted_elements() {
  const double threshold = loss().from_logits() ? 0 : 0.5;
  return nodes_.mean_of_elements([&](ValueId x, ValueId y) {
    const ValueId predicted = g_.op("Greater", {x, nodes_.number(threshold)});
    // The label of the other side may be 0 or -1.
    const ValueId expected = g_.op("Greater", {y, nodes_.number(0)});
    return nodes_.cast(g_.op("Equal", {predicted, expected}), spec_.precision);
  });
}

// The class with the largest output along axis 1. The hits are added as numbers of the precision.
ValueId BatchLoss::correct() {
  if (loss().labels() == Labels::binary) return predicted_elements();
  const LossValues& values = nodes_.values;
  const auto largest = [&](ValueId scores) {
    return g_.op("ArgMax", {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  };
  const ValueId labels =
      loss().soft_labels() ? largest(values.labels) : nodes_.cast(values.labels, DType::i64);
  const ValueId predicted = largest(values.output);
  const ValueId hits = nodes_.cast(g_.op("Equal", {predicted, labels}), spec_.precision);
  return nodes_.sum_each(loss().ignore_index ? g_.op("Mul", {hits, nodes_.counted()}) : hits);
}

}  // namespace leat
