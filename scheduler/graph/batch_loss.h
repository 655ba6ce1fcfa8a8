// The nodes that compute the loss and the accuracy of a shard's batch. Private to train_graph.cc.
#pragma once

#include <cstdint>

#include "ops/graph/builder.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/graph/read_batch.h"
#include "scheduler/graph/train_graph.h"
#include "scheduler/recipes/loss_nodes.h"

namespace leat {

// The values of one shard's rows.
struct BatchValues {
  ValueId output = kNone;   // of the model: compared with the labels, or the loss itself
  BatchLabels labels = {};  // as the data has them
  ValueId weights = kNone;  // 0 for rows past the end of the data; kNone if there are none such
};

// The place of the classes, as class_layout() has it for the labels of a loss of classes. Soft
// labels have the shape of the output, with the classes along axis 1.
Result<ClassLayout> layout_of(const LossSpec& loss, const ColumnInfo& labels,
                              const SymbolicShape& output);

// Adds nodes with a builder, whose errors count: the values mean nothing after one.
//
//   BatchLoss loss(g, spec, spec.loss, layout, values);
//   const ValueId sum = loss.sum();
class BatchLoss {
 public:
  // `loss`: a term of the spec's loss. Both outlive it. `layout` matters to losses of classes
  // alone, and then must be that of the labels and the output.
  BatchLoss(GraphBuilder& g, const TrainSpec& spec, const LossSpec& loss, ClassLayout layout,
            BatchValues values);

  // The sum of the loss over what counts: the labels of the shard's rows, or the rows themselves. A
  // scalar.
  ValueId sum() { return loss().recipe().sum(nodes_); }
  // How much counts in each row: its labels, or 1. REQUIRES: !counts_labels().
  int64_t per_row() const {
    return loss().labels() == Labels::classes ? nodes_.values.positions : 1;
  }
  // True if the labels decide what counts.
  bool counts_labels() const { return ignores_labels() || weighs_labels(); }
  // The same, and a label may count less than 1.
  bool weighs_labels() const { return loss().has_class_labels() && !loss().class_weights.empty(); }
  // How much counts in the shard, as a scalar of the spec's precision.
  ValueId count();
  // How many labels count in the shard, each as 1 whatever the weight of its class is.
  ValueId labels();
  // How many of the labels that count the output predicts. REQUIRES: labels of classes, or binary
  // ones.
  ValueId correct();
  // The values in the shapes that the loss wants.
  LossNodes& nodes() { return nodes_; }

 private:
  const LossSpec& loss() const { return loss_; }
  bool ignores_labels() const {
    return loss().labels() == Labels::classes && loss().ignore_index.has_value();
  }
  void fit_classes(ClassLayout layout);
  void fit_soft_labels();
  ValueId predicted_elements();

  GraphBuilder& g_;
  const TrainSpec& spec_;
  const LossSpec& loss_;
  LossNodes nodes_;
};

}  // namespace leat
