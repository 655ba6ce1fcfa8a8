// Makes the nodes of transforms. The entries of the table are its only users, beside the function
// that applies a whole list.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/data/columns.h"
#include "ops/graph/builder.h"
#include "scheduler/recipes/transform.h"

namespace leat {

// A column of a batch while transforms change it.
struct BatchColumn {
  std::string name;
  ValueId value = kNone;  // [rows, ...]
  bool rescaled = false;  // the job's factor is in it
  // Files of images that the next transform of the column decodes, with as many channels; 0: none.
  int64_t encoded = 0;
};

// The facts of a job that transforms need.
struct TransformSetting {
  int64_t rows = 1;               // of a shard's batch
  double rescale = 1;             // floats of inputs are multiplied by it once
  DType precision = DType::f32;   // of computed columns
  int64_t classes = 0;            // of the labels; 0: unknown
  std::string labels = "labels";  // the column of labels
  bool in_training = false;       // apply() sets it
};

class TransformBuilder {
 public:
  // `columns` outlives the builder, and has the result.
  TransformBuilder(GraphBuilder& g, TransformSetting setting, std::vector<BatchColumn>& columns)
      : g_(g), setting_(std::move(setting)), columns_(columns) {}

  // Applies the transforms in their order; the random ones only `in_training`. Elsewhere the data
  // may lack labels, and the transforms of labels are left out then. invalid_argument,
  // with the transform's place in the list, if one does not fit its column.
  Status apply(std::span<const Transform> transforms, bool in_training);

  // --- For the entries. Each call is about the transform that is being applied.
  GraphBuilder& graph() { return g_; }
  const TransformSetting& setting() const { return setting_; }
  ValueId value() const { return column_->value; }
  void set(ValueId value) { column_->value = value; }
  BatchColumn* labels();  // null: the data has none
  BatchColumn* column() const { return column_; }

  DType dtype() const { return type_of(value()).dtype; }
  const ValueType& type_of(ValueId value) const { return g_.graph().value(value).type; }
  // The sizes of a row.
  Shape row() const { return row_of(value()); }
  Shape row_of(ValueId value) const;
  // The rows as images of [rows, channels, height, width]. An error unless rows have 2 or 3
  // dimensions.
  Status check_image() const;
  int64_t height() const { return row()[row().rank() - 2]; }
  int64_t width() const { return row()[row().rank() - 1]; }

  // Makes the column floats of the job's precision, with the job's factor.
  void to_floats();
  // The same for colours from 0 to 1. An error for bytes without a factor.
  Status to_colours();

  // Uniform numbers in [0,1), f32: [rows, count] of their own for each row, or [count] for the
  // whole global batch.
  ValueId draw_rows(int64_t count);
  ValueId draw_batch(int64_t count);

  // Short forms.
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return g_.op(name, std::move(inputs), std::move(attrs));
  }
  ValueId floats(std::vector<double> values, std::vector<int64_t> shape);
  ValueId f32(std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    return floats(std::move(values), {count});
  }
  ValueId integers(std::vector<int64_t> values);
  ValueId cast(ValueId value, DType dtype);
  ValueId reshape(ValueId value, std::vector<int64_t> sizes);
  // Column `i` of [rows, n], as [rows, 1].
  ValueId pick(ValueId numbers, int64_t i);
  // The rows of the shard, each in the place of the next one.
  ValueId roll(ValueId rows);

  Status error(std::string_view message) const;

 private:
  ValueId keyed(ValueId value);
  Status choose_column(const Transform& transform, const TransformEntry& entry);

  GraphBuilder& g_;
  TransformSetting setting_;
  std::vector<BatchColumn>& columns_;
  BatchColumn* column_ = nullptr;
  size_t place_ = 0;  // in the list
  std::string name_;
  uint32_t draws_ = 0;  // of this transform
};

// The columns as the model sees them behind the transforms. `setting` as for the builder.
Result<std::vector<ColumnInfo>> transformed_columns(const Catalogue& catalogue,
                                                    const std::vector<ColumnInfo>& columns,
                                                    std::span<const Transform> transforms,
                                                    const TransformSetting& setting,
                                                    bool in_training);

}  // namespace leat
