// Decides which column of a data set each input of a model reads, and which have the labels.
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
#include "scheduler/recipes/loss.h"

namespace leat {

// The column that a loss compares the output with, unless it names another one.
inline constexpr std::string_view kLabelsColumn = "labels";

// Indices of columns.
struct DataBinding {
  std::vector<size_t> inputs;  // one for each input of the model
};

// `named` has the columns of inputs by the inputs' names. Any other input reads the column of its
// own name; if the model has one input and there is no such column, it reads the only column that
// is not the labels. The rows of a column must fit those of the input (fits_row()), and an input of
// integers takes no floats. `files` has the files of columns, for messages: a column that is not
// there is called "column 'x'".
Result<DataBinding> bind_columns(const Graph& model, const std::vector<ColumnInfo>& columns,
                                 const std::map<std::string, std::string>& named,
                                 const std::map<std::string, std::string>& files = {});

// The columns of a loss; nothing for those that it does not need.
struct LabelColumns {
  std::optional<size_t> labels;
  std::optional<size_t> input_lengths, label_lengths;  // ctc
};

// The name of the column with the labels of a loss.
std::string column_of_labels(const LossSpec& loss);
// Of each loss the columns that it reads. The error lists the columns of the data if one is not
// there.
Result<std::vector<LabelColumns>> bind_labels(const std::vector<ColumnInfo>& columns,
                                              const std::vector<const LossSpec*>& losses);
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
