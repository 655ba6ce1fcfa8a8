// The values from which the sums of metrics are made. Each is made once for all metrics of a batch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scheduler/recipes/loss_nodes.h"
#include "scheduler/recipes/metric.h"

namespace leat {

// All values are f64, and of one of two kinds. Labels of classes and binary ones have one row for
// each label, M in all; values have one row for each row of the shard. Errors are the builder's.
// Threads: one.
class MetricNodes {
 public:
  // `loss` outlives it. Without weights of rows all rows count.
  explicit MetricNodes(LossNodes& loss) : g(loss.g), loss_(loss) {}

  GraphBuilder& g;
  // Of the metric whose sums are made now.
  const SettingValues* settings = nullptr;

  bool is_binary() const { return loss_.spec.labels() == Labels::binary; }
  // The number of classes; 2 for binary labels.
  int64_t classes();
  // [M,C], or [M,1] for binary labels: the output as it is.
  ValueId scores();
  // The same as probabilities.
  ValueId probabilities();
  // [M,C], or [M,1]: the output, or the logarithms of its probabilities.
  ValueId logits();
  // [M,1]: the labels as i64.
  ValueId labels();
  // [M,1]: 1 for a label that counts, 0 for one that is ignored or past the end of the data.
  ValueId counts();
  // [M,C]: 1 where the class is that of the label, or that of the largest output, and 0 elsewhere.
  ValueId hot_labels();
  ValueId hot_predictions();

  // [rows,E]: the output and the labels as numbers, and [rows,1]: 1 for rows within the data.
  ValueId outputs();
  ValueId targets();
  ValueId rows();

  // Classes and sequences: of each row the least number of edits that turn the predictions into the
  // labels, the number of its labels, and 1 if both are equal, [rows,3]. With a `separator` of 0 or
  // more, of words.
  ValueId edits(int64_t separator);

  ValueId number(double value) { return g.scalar(DType::f64, value); }
  ValueId to_f64(ValueId value) { return loss_.cast(value, DType::f64); }
  // The sum over axis 0, as a list of one dimension.
  ValueId down(ValueId value);
  // The lists one after the other.
  ValueId joined(const std::vector<ValueId>& lists) {
    return g.op("Concat", lists, {{"axis", int64_t{0}}});
  }
  ValueId reshape(ValueId value, const std::vector<int64_t>& sizes) {
    return loss_.reshape(value, sizes);
  }
  ValueId mul(ValueId a, ValueId b) { return g.op("Mul", {a, b}); }

 private:
  ValueId hot(ValueId classes_of_rows);
  ValueId sequence_of_classes(ValueId values);
  ValueId up_to(ValueId values, ValueId lengths);
  ValueId weights_of_labels(int64_t each);

  LossNodes& loss_;
  ValueId scores_ = kNone, labels_ = kNone, counts_ = kNone;
  ValueId hot_labels_ = kNone, hot_predictions_ = kNone;
};

}  // namespace leat
