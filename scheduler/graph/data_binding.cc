#include "scheduler/graph/data_binding.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/row_shape.h"

namespace leat {
namespace {

std::vector<std::string> names_of(const std::vector<ColumnInfo>& columns) {
  std::vector<std::string> out;
  for (const ColumnInfo& column : columns) out.push_back(column.name);
  return out;
}

std::optional<size_t> index_of(const std::vector<ColumnInfo>& columns, std::string_view name) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
  }
  return {};
}

Status no_column(std::string_view subject, std::string_view name,
                 const std::vector<ColumnInfo>& columns, std::string_view remedy) {
  const std::vector<std::string> names = names_of(columns);
  return invalid_argument(cat(subject, ": expected a column '", name, "' in the data, which has ",
                              join(names, ", "), did_you_mean(name, names), remedy));
}

// The only column that is not the labels.
std::optional<size_t> only_other(const std::vector<ColumnInfo>& columns) {
  std::optional<size_t> found;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == kLabelsColumn) continue;
    if (found) return {};
    found = i;
  }
  return found;
}

Result<size_t> column_of_input(const Graph& model, ValueId input,
                               const std::vector<ColumnInfo>& columns,
                               const std::map<std::string, std::string>& named) {
  const std::string& name = model.value_name(input);
  const std::string subject = cat("input '", name, "'");
  if (const auto given = named.find(name); given != named.end()) {
    const auto index = index_of(columns, given->second);
    if (index) return *index;
    return no_column(subject, given->second, columns, "");
  }
  if (const auto index = index_of(columns, name)) return *index;
  const auto only = model.inputs().size() == 1 ? only_other(columns) : std::nullopt;
  if (only) return *only;
  return no_column(
      subject, name, columns,
      cat("; write model.inputs: {", name, ": COLUMN}, or data.columns: {", name, ": COLUMN}"));
}

Status check_input(const Graph& model, ValueId input, const ColumnInfo& column,
                   const std::string& subject) {
  const ValueType& type = model.value(input).type;
  if (!fits_row(column.shape, type.shape)) {
    return invalid_argument(cat(subject, ": expected records of the shape of a row of ",
                                model.type_text(type), ", the input '", model.value_name(input),
                                "', received ", column.dtype, column.shape,
                                layout_hint(column.shape, type.shape)));
  }
  const bool takes = is_float(type.dtype) || !is_float(column.dtype);
  if (takes) return {};
  return invalid_argument(cat(subject, ": expected integers for the input '",
                              model.value_name(input), "' of ", model.type_text(type),
                              ", received ", column.dtype, column.shape));
}

// The shape without its last dimension.
SymbolicShape without_last(const SymbolicShape& shape) {
  SymbolicShape out;
  for (int i = 0; i + 1 < shape.rank(); ++i) out.push_back(shape[i]);
  return out;
}

}  // namespace

std::string subject_of(const ColumnInfo& column, const std::map<std::string, std::string>& files) {
  const auto found = files.find(column.name);
  return found == files.end() ? cat("column '", column.name, "'") : cat("'", found->second, "'");
}

Result<DataBinding> bind_columns(const Graph& model, const std::vector<ColumnInfo>& columns,
                                 const std::map<std::string, std::string>& named,
                                 const std::map<std::string, std::string>& files) {
  std::vector<std::string> inputs;
  for (const ValueId input : model.inputs()) inputs.push_back(model.value_name(input));
  for (const auto& [name, column] : named) {
    if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) continue;
    return invalid_argument(cat("model.inputs: expected inputs of the graph, which are ",
                                join(inputs, ", "), ", received '", name, "'",
                                did_you_mean(name, inputs)));
  }
  DataBinding binding;
  for (const ValueId input : model.inputs()) {
    LEAT_ASSIGN_OR_RETURN(const size_t index, column_of_input(model, input, columns, named));
    LEAT_RETURN_IF_ERROR(
        check_input(model, input, columns[index], subject_of(columns[index], files)));
    binding.inputs.push_back(index);
  }
  return binding;
}

std::string column_of_labels(const LossSpec& loss) {
  return loss.column.empty() ? std::string(kLabelsColumn) : loss.column;
}

Result<std::vector<LabelColumns>> bind_labels(const std::vector<ColumnInfo>& columns,
                                              const std::vector<const LossSpec*>& losses) {
  std::vector<LabelColumns> found(losses.size());
  const auto find = [&](const std::string& name, std::string_view remedy,
                        std::optional<size_t>& index) -> Status {
    index = index_of(columns, name);
    return index ? Status() : no_column("loss", name, columns, remedy);
  };
  for (size_t i = 0; i < losses.size(); ++i) {
    const LossSpec& loss = *losses[i];
    if (loss.labels() == Labels::none) continue;
    const std::string_view remedy =
        loss.column.empty() ? "; write data.columns: {labels: COLUMN, ...}" : "";
    LEAT_RETURN_IF_ERROR(find(column_of_labels(loss), remedy, found[i].labels));
    if (!loss.input_lengths.empty())
      LEAT_RETURN_IF_ERROR(find(loss.input_lengths, "", found[i].input_lengths));
    if (!loss.label_lengths.empty())
      LEAT_RETURN_IF_ERROR(find(loss.label_lengths, "", found[i].label_lengths));
  }
  return found;
}

Result<ClassLayout> class_layout(const ColumnInfo& labels, const SymbolicShape& output) {
  const int64_t positions = labels.shape.elements();
  if (output.rank() < 2 || fits_row(labels.shape, output, 2)) return ClassLayout{false, positions};
  if (output.rank() > 2 && fits_row(labels.shape, without_last(output), 1))
    return ClassLayout{true, positions};
  return invalid_argument(cat("column '", labels.name, "': expected a class for each row",
                              layout_hint(labels.shape, output, 2)));
}

Result<ValueId> find_output(const Graph& model, const std::string& name) {
  std::vector<std::string> names;
  for (const ValueId output : model.outputs()) {
    if (name.empty() || model.value_name(output) == name) return output;
    names.push_back(model.value_name(output));
  }
  return invalid_argument(cat("output '", name, "': expected an output of the graph, which are ",
                              join(names, ", "), did_you_mean(name, names)));
}

}  // namespace leat
