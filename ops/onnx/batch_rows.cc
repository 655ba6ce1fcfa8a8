#include "ops/onnx/batch_rows.h"

#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "devices/base/text.h"

namespace leat {
namespace {

// The rows that all inputs have; nothing if they differ, or are unknown.
std::optional<int64_t> rows_of_inputs(const DraftGraph& graph) {
  std::optional<int64_t> rows;
  for (const DraftValue& input : graph.inputs) {
    if (!input.type || input.type->dims.empty() || !input.type->dims[0].size) return std::nullopt;
    if (rows && *rows != *input.type->dims[0].size) return std::nullopt;
    rows = input.type->dims[0].size;
  }
  return rows;
}

// True if so many parts of a tensor, one after the other, are the same.
bool has_equal_parts(const Tensor& value, int64_t parts) {
  const size_t size = value.bytes() / static_cast<size_t>(parts);
  const auto* const bytes = static_cast<const std::byte*>(value.raw());
  for (int64_t i = 1; i < parts; ++i) {
    if (std::memcmp(bytes, bytes + static_cast<size_t>(i) * size, size) != 0) return false;
  }
  return true;
}

bool has_equal_rows(const Tensor& value, int64_t rows) {
  return is_float(value.dtype()) && value.shape().rank() >= 2 && value.shape()[0] == rows &&
         value.elements() > 0 && has_equal_parts(value, rows);
}

// The constants that an op for each element broadcasts to values of more dimensions, such as a bias
// of each head that is added to the scores of all images. Their first dimension is none of rows,
// even if they have equal parts: a bias may begin with zeros alone.
std::set<std::string> broadcast_constants(const DraftGraph& graph,
                                          const std::map<std::string, int>& ranks) {
  std::map<std::string, int> constants;
  for (const DraftConstant& constant : graph.constants)
    constants[constant.name.name] = constant.value.shape().rank();
  std::set<std::string> broadcast;
  for (const DraftNode& node : graph.nodes) {
    const bool by_element =
        node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div";
    if (!by_element || node.outputs.empty()) continue;
    const auto rank = ranks.find(node.outputs[0].name);
    if (rank == ranks.end()) continue;
    for (const DraftName& input : node.inputs) {
      const auto constant = constants.find(input.name);
      if (constant != constants.end() && constant->second < rank->second)
        broadcast.insert(input.name);
    }
  }
  return broadcast;
}

// True for the vectors [N,T,C] of an embedding that looked up the same line for all tokens, such as
// that of their type. Numbers that are all equal tell nothing.
bool is_one_line(const std::string& name, const Tensor& value) {
  return name.starts_with("embedding") && value.shape().rank() == 3 &&
         has_equal_parts(value, value.shape()[0] * value.shape()[1]) &&
         !has_equal_parts(value, value.elements());
}

Tensor first_row(const std::string& name, const Tensor& value) {
  std::vector<int64_t> sizes(value.shape().begin(), value.shape().end());
  sizes[0] = 1;
  if (is_one_line(name, value)) sizes[1] = 1;
  Tensor row(value.dtype(), Shape(sizes));
  std::memcpy(row.raw(), value.raw(), row.bytes());
  return row;
}

// The sizes of a row.
DraftConstant sizes_of(const Tensor& value, const std::string& name) {
  const std::vector<int64_t> sizes(value.shape().begin() + 1, value.shape().end());
  DraftConstant constant;
  constant.name.name = name;
  constant.value = Tensor::of<int64_t>(Shape({value.shape().rank() - 1}), sizes);
  return constant;
}

DraftNode node_of(std::string op, const std::vector<std::string>& inputs, std::string output) {
  DraftNode node;
  node.op = std::move(op);
  for (const std::string& input : inputs) node.inputs.push_back({input, 0});
  node.outputs = {{std::move(output), 0}};
  return node;
}

// Expands `from` to as many rows as the input has, whatever batch the job takes.
void add_expand(const std::string& from, const std::string& input, const std::string& to,
                std::vector<DraftNode>& nodes) {
  const std::string rows = cat("%rows ", from), sizes = cat("%sizes ", from);
  DraftNode& shape = nodes.emplace_back(node_of("Shape", {input}, rows));
  shape.attrs["start"] = Attr(int64_t{0});
  shape.attrs["end"] = Attr(int64_t{1});
  DraftNode& concat = nodes.emplace_back(node_of("Concat", {rows, cat("%row ", from)}, sizes));
  concat.attrs["axis"] = Attr(int64_t{0});
  nodes.push_back(node_of("Expand", {from, sizes}, to));
}

}  // namespace

void share_rows(DraftGraph& graph, const std::map<std::string, int>& ranks,
                const std::function<std::string(const std::string&)>& name) {
  const std::optional<int64_t> rows = rows_of_inputs(graph);
  if (!rows || *rows < 2) return;
  std::set<std::string> taken;
  for (const DraftConstant& constant : graph.constants) taken.insert(constant.name.name);
  for (const DraftValue& input : graph.inputs) taken.insert(input.name.name);
  for (const DraftNode& node : graph.nodes) {
    for (const DraftName& output : node.outputs) taken.insert(output.name);
  }
  const std::set<std::string> broadcast = broadcast_constants(graph, ranks);
  std::vector<DraftNode> expands;
  std::vector<DraftConstant> sizes;
  for (DraftConstant& constant : graph.constants) {
    if (!has_equal_rows(constant.value, *rows) || broadcast.contains(constant.name.name)) continue;
    const std::string own = name(constant.name.name);
    if (own.empty() || !taken.insert(own).second) continue;
    add_expand(own, graph.inputs[0].name.name, constant.name.name, expands);
    sizes.push_back(sizes_of(constant.value, cat("%row ", own)));
    constant.value = first_row(constant.name.name, constant.value);
    constant.name.name = own;
  }
  graph.constants.insert(graph.constants.end(), std::make_move_iterator(sizes.begin()),
                         std::make_move_iterator(sizes.end()));
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(expands.begin()),
                     std::make_move_iterator(expands.end()));
}

}  // namespace leat
