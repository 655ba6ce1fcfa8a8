// Decides which column of a data set each input of a model reads, and which one has the labels.
//
// All functions are pure. Their errors are invalid_argument, and name the input or the column.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/data/columns.h"
#include "ops/graph/graph.h"

namespace leat {

// The column that a loss compares the output with.
inline constexpr std::string_view kLabelsColumn = "labels";

// Indices of columns.
struct DataBinding {
  std::vector<size_t> inputs;    // one for each input of the model
  std::optional<size_t> labels;  // if the loss needs them
};

// `named` has the columns of inputs by the inputs' names. Any other input reads the column of its
// own name; if the model has one input and there is no such column, it reads the only column that
// is not the labels. With `needs_labels`, the column kLabelsColumn has the labels, and an error
// lists the columns if there is none. The rows of a column must fit those of the input
// (fits_row()), and an input of integers takes no floats. `files` has the files of columns, for
// messages: a column that is not there is called "column 'x'".
Result<DataBinding> bind_columns(const Graph& model, const std::vector<ColumnInfo>& columns,
                                 const std::map<std::string, std::string>& named, bool needs_labels,
                                 const std::map<std::string, std::string>& files = {});
// "'x.npy'" or "column 'x'".
std::string subject_of(const ColumnInfo& column, const std::map<std::string, std::string>& files);

// The place of the classes in the output that cross_entropy compares with the labels.
struct ClassLayout {
  bool last = false;      // along the last axis, as in [N,T,V]; else along axis 1, as in [N,V,T]
  int64_t positions = 1;  // the labels of a row
};
// Labels of a row have the shape of a row of the output without its classes. If both readings fit,
// axis 1 has the classes. An error if neither does.
Result<ClassLayout> class_layout(const ColumnInfo& labels, const SymbolicShape& output);

// The output of this name; the first one if `name` is empty. The error lists the outputs.
Result<ValueId> find_output(const Graph& model, const std::string& name);

}  // namespace leat
