// The values from which the nodes of a loss are made, and the nodes that losses share.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ops/graph/builder.h"
#include "scheduler/recipes/loss.h"

namespace leat {

// The values of one shard's rows.
struct LossValues {
  ValueId output = kNone;  // of the model: compared with the labels, or the loss itself
  ValueId labels = kNone;  // as the data has them; kNone if the loss has none
  ValueId input_lengths = kNone, label_lengths = kNone;  // of ctc, [rows]; kNone: not given
  ValueId weights = kNone;  // 0 for rows past the end of the data; kNone if there are none such
  int64_t rows = 0;         // of the shard
  int64_t positions = 1;    // classes: labels of a row
  bool one_per_row = true;  // the labels have one dimension, which counts the rows
};

// Adds nodes with a builder, whose errors count: the values mean nothing after one. Classes are
// along axis 1 of the output.
// Threads: one.
class LossNodes {
 public:
  // Both outlive it. `precision`: of the loss.
  LossNodes(GraphBuilder& builder, const LossSpec& of, DType precision, const LossValues& of_rows)
      : g(builder), spec(of), dtype(precision), values(of_rows) {}

  GraphBuilder& g;
  const LossSpec& spec;
  const DType dtype;
  LossValues values;

  double setting(std::string_view name) const { return spec.settings.number(name); }
  ValueId number(double value) { return g.scalar(dtype, value); }
  ValueId cast(ValueId value, DType to) {
    return g.op("Cast", {value}, {{"to", int64_t{dtype_onnx_code(to)}}});
  }
  ValueId reshape(ValueId value, const std::vector<int64_t>& sizes);
  ValueId sum_all(ValueId value) { return g.op("ReduceSum", {value}, {{"keepdims", int64_t{0}}}); }
  // The sum, or the mean, over axis 1, which goes away.
  ValueId over_columns(std::string_view op, ValueId value) {
    return g.op(op, {value, g.constant(Tensor::of<int64_t>({1}, {1}))}, {{"keepdims", int64_t{0}}});
  }
  // The sum of a value that each label has, without the rows past the end of the data.
  ValueId sum_each(ValueId each);
  // Of each row the mean over its elements of each(output, label), then the sum over the rows. Both
  // are brought to [rows, elements] first, since labels may have another rank.
  ValueId mean_of_elements(const std::function<ValueId(ValueId, ValueId)>& each);

  // Classes only. 1 for each label that counts, 0 for one that is ignored. REQUIRES: ignore_index.
  ValueId counted();
  // The labels as integers, those that are ignored as 0.
  ValueId valid_labels();
  // The output, or the logarithms of its probabilities.
  ValueId logits();
  // The weights of the classes, [C]. REQUIRES: there are some.
  ValueId class_weights();
};

}  // namespace leat
