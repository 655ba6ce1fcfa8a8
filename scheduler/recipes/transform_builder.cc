#include "scheduler/recipes/transform_builder.h"

#include <algorithm>

#include "devices/base/text.h"
#include "scheduler/recipes/transform_entries.h"

namespace leat {
namespace {

// Nodes of transforms draw from streams that no node of a model has: Node::source counts those from
// 0. The lower bits are the transform's place and its draw.
constexpr uint32_t kTransformStreams = 0x80000000;
constexpr uint32_t kMostDraws = 64;

// The transforms that may stand behind a decode without a size.
bool gives_size(const TransformEntry& entry) {
  return entry.emit == transforms::resize || entry.emit == transforms::random_resized_crop;
}

}  // namespace

Status TransformBuilder::apply(std::span<const Transform> transforms, bool in_training) {
  setting_.in_training = in_training;
  for (size_t i = 0; i < transforms.size(); ++i) {
    const Transform& transform = transforms[i];
    const TransformEntry* const entry = find_transform(transform.name);
    place_ = i, name_ = transform.name, draws_ = 0;
    if (!entry) return error("expected the name of a transform");
    if (entry->random && !in_training) continue;
    const bool of_labels =
        transform.column.empty() ? entry->of_labels : transform.column == setting_.labels;
    if (of_labels && !in_training && !labels()) continue;
    LEAT_RETURN_IF_ERROR(choose_column(transform, *entry));
    if (column_->encoded > 0 && !gives_size(*entry)) {
      return error(cat("column '", column_->name, "': expected resize or random_resized_crop ",
                       "behind decode, which has no size, received ", entry->name));
    }
    LEAT_RETURN_IF_ERROR(entry->emit(*this, transform));
    if (!g_.status().ok()) return error(g_.status().message());
  }
  for (const BatchColumn& column : columns_) {
    if (column.encoded == 0) continue;
    return error(cat("column '", column.name, "': expected a size of decode, or resize or ",
                     "random_resized_crop behind it, received none"));
  }
  return {};
}

Status TransformBuilder::choose_column(const Transform& transform, const TransformEntry& entry) {
  std::vector<std::string> names;
  column_ = nullptr;
  for (BatchColumn& column : columns_) {
    names.push_back(column.name);
    const bool wanted = transform.column.empty()
                            ? (column.name == setting_.labels) == entry.of_labels
                            : column.name == transform.column;
    if (wanted && !column_) column_ = &column;
  }
  if (column_) return {};
  if (transform.column.empty()) {
    return error(cat("expected a column of ", entry.of_labels ? "labels" : "inputs",
                     " in the data, which has ", join(names, ", ")));
  }
  return error(cat("column: expected a column of the data, which has ", join(names, ", "),
                   ", received '", transform.column, "'", did_you_mean(transform.column, names)));
}

BatchColumn* TransformBuilder::labels() {
  const auto found = std::find_if(columns_.begin(), columns_.end(), [&](const BatchColumn& column) {
    return column.name == setting_.labels;
  });
  return found == columns_.end() ? nullptr : &*found;
}

Shape TransformBuilder::row_of(ValueId value) const {
  const Shape shape = type_of(value).shape.concrete().value_or(Shape());
  return shape.rank() == 0 ? Shape() : Shape(shape.dims().subspan(1));
}

Status TransformBuilder::check_image() const {
  const Shape shape = row();
  if ((shape.rank() == 2 || shape.rank() == 3) && shape.elements() > 0) return {};
  return error(cat("column '", column_->name,
                   "': expected images of [channels,height,width] or [height,width], received ",
                   shape));
}

void TransformBuilder::to_floats() {
  if (dtype() != setting_.precision) set(cast(value(), setting_.precision));
  if (column_->rescaled) return;
  column_->rescaled = true;
  if (setting_.rescale != 1)
    set(op("Mul", {value(), g_.scalar(setting_.precision, setting_.rescale)}));
}

Status TransformBuilder::to_colours() {
  LEAT_RETURN_IF_ERROR(check_image());
  if (!is_float(dtype()) && setting_.rescale == 1 && !column_->rescaled) {
    return error(cat("column '", column_->name,
                     "': expected colours from 0 to 1, received integers; write data.rescale: "
                     "0.00392156862745098, which is 1/255"));
  }
  const Shape shape = row();
  if (shape.rank() == 3 && shape[0] != 1 && shape[0] != 3) {
    return error(cat("column '", column_->name,
                     "': expected images of 1 or 3 channels, [channels,height,width], received ",
                     shape));
  }
  to_floats();
  return {};
}

ValueId TransformBuilder::keyed(ValueId value) {
  if (!g_.status().ok()) return value;
  Graph& graph = g_.graph();
  graph.node(graph.value(value).producer).source =
      kTransformStreams + static_cast<uint32_t>(place_) * kMostDraws + draws_++;
  return value;
}

// The op takes its shape, and so the index of a row, from an input of rows.
ValueId TransformBuilder::draw_rows(int64_t count) {
  const ValueId flat = reshape(value(), {setting_.rows, -1});
  const int64_t elements = row().elements();
  ValueId like = flat;
  if (elements > count) {
    like = op("Slice", {flat, integers({0}), integers({count}), integers({1})});
  } else if (elements < count) {
    // A row of few elements is repeated.
    const int64_t times = elements == 0 ? 0 : (count + elements - 1) / elements;
    like = op("Slice", {op("Tile", {flat, integers({1, times})}), integers({0}), integers({count}),
                        integers({1})});
  }
  return keyed(op("RandomUniformLike", {like}, {{"dtype", int64_t{dtype_onnx_code(DType::f32)}}}));
}

// No shard is in it, so each worker draws the same numbers.
ValueId TransformBuilder::draw_batch(int64_t count) {
  return keyed(op("RandomUniform", {}, {{"shape", std::vector<int64_t>{count}}}));
}

ValueId TransformBuilder::floats(std::vector<double> values, std::vector<int64_t> shape) {
  Tensor tensor(DType::f32, Shape(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<int64_t>(i), values[i]);
  return g_.constant(std::move(tensor));
}

ValueId TransformBuilder::integers(std::vector<int64_t> values) {
  return g_.constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueId TransformBuilder::cast(ValueId value, DType dtype) {
  return op("Cast", {value}, {{"to", int64_t{dtype_onnx_code(dtype)}}});
}

ValueId TransformBuilder::reshape(ValueId value, std::vector<int64_t> sizes) {
  return op("Reshape", {value, integers(std::move(sizes))});
}

ValueId TransformBuilder::pick(ValueId numbers, int64_t i) {
  return op("Slice", {numbers, integers({i}), integers({i + 1}), integers({1})});
}

ValueId TransformBuilder::roll(ValueId rows) {
  if (setting_.rows < 2) return rows;
  const ValueId last =
      op("Slice", {rows, integers({setting_.rows - 1}), integers({setting_.rows}), integers({0})});
  const ValueId others =
      op("Slice", {rows, integers({0}), integers({setting_.rows - 1}), integers({0})});
  return op("Concat", {last, others}, {{"axis", int64_t{0}}});
}

Status TransformBuilder::error(std::string_view message) const {
  return invalid_argument(cat("data.transforms[", place_, "]: ", name_, ": ", message));
}

Result<std::vector<ColumnInfo>> transformed_columns(const Catalogue& catalogue,
                                                    const std::vector<ColumnInfo>& columns,
                                                    std::span<const Transform> transforms,
                                                    const TransformSetting& setting,
                                                    bool in_training) {
  if (transforms.empty()) return columns;
  Graph graph(catalogue);
  GraphBuilder g(graph);
  std::vector<BatchColumn> batch;
  for (const ColumnInfo& column : columns) {
    SymbolicShape shape{Dim::of(setting.rows)};
    for (const int64_t size : column.shape) shape.push_back(Dim::of(size));
    batch.push_back({column.name, g.input(column.name, column.dtype, shape)});
  }
  LEAT_RETURN_IF_ERROR(g.status());
  TransformBuilder builder(g, setting, batch);
  LEAT_RETURN_IF_ERROR(builder.apply(transforms, in_training));
  std::vector<ColumnInfo> out = columns;
  for (size_t c = 0; c < out.size(); ++c) {
    out[c].dtype = builder.type_of(batch[c].value).dtype;
    out[c].shape = builder.row_of(batch[c].value);
  }
  return out;
}

}  // namespace leat
