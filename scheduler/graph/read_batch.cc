#include "scheduler/graph/read_batch.h"

#include <utility>

#include "ops/definitions/input.h"
#include "ops/definitions/row_shape.h"

namespace leat {
namespace {

// A column as an input of the model: of its type and shape. Floats are rescaled.
ValueId as_input(GraphBuilder& g, const TrainSpec& spec, const BatchColumn& rows,
                 const ColumnInfo& column, const ValueType& input) {
  // Transforms may have made it what the model reads.
  const bool made = rows.rescaled && column.dtype == input.dtype;
  ValueId x = made ? rows.value
                   : g.op("Cast", {rows.value}, {{"to", int64_t{dtype_onnx_code(input.dtype)}}});
  // The cast comes before the product, because the data may be bytes.
  if (spec.input.rescale != 1 && !rows.rescaled && is_float(input.dtype))
    x = g.op("Mul", {x, g.scalar(input.dtype, spec.input.rescale)});
  // The shape of a row is that of the record where it fits, else that of the model's input.
  const Shape row = row_shape(column.shape, input.shape);
  const bool fits = fits_row(column.shape, input.shape);
  std::vector<int64_t> shape{spec.global_batch / spec.shards};
  for (int i = 1; i < input.shape.rank(); ++i)
    shape.push_back(fits ? row[i - 1] : input.shape[i].is_constant() ? input.shape[i].factor : -1);
  return g.op("Reshape",
              {x, g.constant(Tensor::of<int64_t>({static_cast<int64_t>(shape.size())}, shape))});
}

// A column as labels: as the data has it, but rescaled where the model reads it rescaled, so that a
// loss can compare an output with an input. The column `labels` is none of the model's.
ValueId as_labels(GraphBuilder& g, const TrainSpec& spec, const BatchColumn& rows, size_t column,
                  const ModelInputs& inputs) {
  const double rescale = spec.input.rescale;
  if (rescale == 1 || rows.rescaled || rows.name == kLabelsColumn) return rows.value;
  for (size_t i = 0; i < inputs.types.size(); ++i) {
    if (inputs.binding.inputs[i] != column || !is_float(inputs.types[i].dtype)) continue;
    const ValueId x =
        g.op("Cast", {rows.value}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
    return g.op("Mul", {x, g.scalar(spec.precision, rescale)});
  }
  return rows.value;
}

}  // namespace

TransformSetting transform_setting(const Graph& model, const TrainSpec& spec) {
  TransformSetting setting;
  setting.rows = spec.global_batch / spec.shards;
  setting.rescale = spec.input.rescale;
  setting.precision = spec.precision;
  setting.labels = column_of_labels(spec.loss);
  // Labels of classes are compared with axis 1 of the output.
  const auto output = find_output(model, spec.loss.output);
  if (spec.loss.labels() != Labels::classes || !output.ok()) return setting;
  const SymbolicShape& shape = model.value(*output).type.shape;
  if (shape.rank() == 2 && shape[1].is_constant()) setting.classes = shape[1].factor;
  return setting;
}

Result<ModelInputs> bind_inputs(const Graph& model, const TrainSpec& spec,
                                const std::vector<const LossSpec*>& losses, bool in_training) {
  ModelInputs inputs;
  LEAT_ASSIGN_OR_RETURN(inputs.columns, reader_columns(spec.input.reader));
  inputs.setting = transform_setting(model, spec);
  LEAT_ASSIGN_OR_RETURN(inputs.transformed,
                        transformed_columns(model.catalogue(), inputs.columns,
                                            spec.input.transforms, inputs.setting, in_training));
  LEAT_ASSIGN_OR_RETURN(inputs.binding,
                        bind_columns(model, inputs.transformed, spec.input.columns));
  LEAT_ASSIGN_OR_RETURN(inputs.labels, bind_labels(inputs.transformed, losses));
  for (const ValueId input : model.inputs()) inputs.types.push_back(model.value(input).type);
  return inputs;
}

Batch read_batch(GraphBuilder& g, const TrainSpec& spec, const ModelInputs& inputs, bool wrap) {
  // The reader draws the rows of one shard out of the global batch. In an evaluation it reads them
  // in order and stops at the end of the data instead of beginning again, so it has one output
  // more: the weight of each row, 0 past the end.
  Attrs attrs = spec.input.reader;
  attrs["global_batch"] = spec.global_batch;
  attrs["rows"] = spec.global_batch / spec.shards;
  attrs["wrap"] = int64_t{wrap};
  if (!wrap) attrs["shuffle"] = int64_t{0};
  const ValueId step = g.op("leat.Step");
  const size_t columns = inputs.columns.size();
  const auto read =
      g.ops("leat.ReadBatch", {step}, attrs, static_cast<int>(wrap ? columns : columns + 1));
  Batch batch;
  if (!g.status().ok()) return batch;
  std::vector<BatchColumn> rows;
  for (size_t c = 0; c < columns; ++c) rows.push_back({inputs.columns[c].name, read[c]});
  // The same calls have succeeded in bind_inputs().
  TransformBuilder transforms(g, inputs.setting, rows);
  if (!transforms.apply(spec.input.transforms, wrap).ok()) return batch;
  for (const LabelColumns& columns_of : inputs.labels) {
    BatchLabels& of = batch.labels.emplace_back();
    if (columns_of.labels)
      of.labels = as_labels(g, spec, rows[*columns_of.labels], *columns_of.labels, inputs);
    if (columns_of.input_lengths) of.input_lengths = rows[*columns_of.input_lengths].value;
    if (columns_of.label_lengths) of.label_lengths = rows[*columns_of.label_lengths].value;
  }
  if (!wrap) {
    batch.weights =
        g.op("Cast", {read[columns]}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
  }
  for (size_t i = 0; i < inputs.types.size(); ++i) {
    const size_t column = inputs.binding.inputs[i];
    batch.inputs.push_back(
        as_input(g, spec, rows[column], inputs.transformed[column], inputs.types[i]));
  }
  return batch;
}

}  // namespace leat
