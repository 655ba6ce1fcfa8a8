// The nodes with which a shard reads its rows of the data. Private to the files that make a job's
// graphs.
#pragma once

#include <vector>

#include "ops/graph/builder.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/graph/train_graph.h"
#include "scheduler/recipes/transform_builder.h"

namespace leat {

// The types of the model's inputs, and the columns that they read.
struct ModelInputs {
  std::vector<ValueType> types;
  std::vector<ColumnInfo> columns;      // of the data
  std::vector<ColumnInfo> transformed;  // the same behind the job's transforms
  DataBinding binding;
  std::vector<LabelColumns> labels;  // of each term of the loss
  TransformSetting setting;
};
// Decides which column each input of the model reads. `model` has the precision of the spec.
// `losses`: the terms of the loss. `in_training`: random transforms count. invalid_argument as
// bind_columns() and bind_labels(), and if a transform does not fit its column.
Result<ModelInputs> bind_inputs(const Graph& model, const TrainSpec& spec,
                                const std::vector<const LossSpec*>& losses, bool in_training);

// The setting of the transforms of a job with this spec. `model` as above.
TransformSetting transform_setting(const Graph& model, const TrainSpec& spec);

// The values that a term of the loss reads of a shard's rows; kNone: none of that kind.
struct BatchLabels {
  ValueId labels = kNone, input_lengths = kNone, label_lengths = kNone;
};

// A shard's rows.
struct Batch {
  std::vector<ValueId> inputs;      // of the model
  std::vector<BatchLabels> labels;  // of each term of the loss
  ValueId weights = kNone;          // kNone: all rows count
};
// Adds nodes that read a shard's rows and transform them, in the shapes that the model's inputs ask
// for. With `wrap`, in training, the reader begins again at the end of the data, and random
// transforms count; else rows past the end have the weight 0. The values mean nothing after an
// error of the builder.
Batch read_batch(GraphBuilder& g, const TrainSpec& spec, const ModelInputs& inputs, bool wrap);

}  // namespace leat
