// The nodes that compute the loss and the accuracy of a shard's batch. Private to train_graph.cc.
#pragma once

#include <cstdint>

#include "ops/graph/builder.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// The values of one shard's rows.
struct BatchValues {
  ValueId output = kNone;   // of the model: compared with the labels, or the loss itself
  ValueId labels = kNone;   // as the data has them; kNone if the loss has none
  ValueId weights = kNone;  // 0 for rows past the end of the data; kNone if there are none such
};

// Adds nodes with a builder, whose errors count: the values mean nothing after one.
//
//   BatchLoss loss(g, spec, layout, values);
//   const ValueId sum = loss.sum();
class BatchLoss {
 public:
  // `layout` matters to cross_entropy alone, and then must be that of the labels and the output.
  BatchLoss(GraphBuilder& g, const TrainSpec& spec, ClassLayout layout, BatchValues values);

  // The sum of the loss over what counts: the labels of the shard's rows, or the rows themselves. A
  // scalar.
  ValueId sum();
  // How much counts in each row: its labels, or 1. REQUIRES: !counts_labels().
  int64_t per_row() const;
  // True if the labels decide what counts.
  bool counts_labels() const { return spec_.loss.ignore_index.has_value(); }
  // How much counts in the shard, as a scalar of the spec's precision.
  ValueId count();
  // How many of the labels that count the output predicts. REQUIRES: cross_entropy.
  ValueId correct();

 private:
  void fit_classes(ClassLayout layout);
  ValueId cast(ValueId value, DType dtype) {
    return g_.op("Cast", {value}, {{"to", int64_t{dtype_onnx_code(dtype)}}});
  }
  ValueId reshape(ValueId value, std::vector<int64_t> sizes);
  ValueId sum_all(ValueId value) { return g_.op("ReduceSum", {value}, {{"keepdims", int64_t{0}}}); }
  ValueId sum_each(ValueId each);
  ValueId counted();
  ValueId logits();
  ValueId cross_entropy();
  ValueId squared_error();
  ValueId loss_output();

  GraphBuilder& g_;
  const TrainSpec& spec_;
  BatchValues values_;
  const int64_t rows_;       // of the shard
  int64_t positions_ = 1;    // labels of a row
  bool one_per_row_ = true;  // the labels have one dimension, which counts the rows
};

}  // namespace leat
