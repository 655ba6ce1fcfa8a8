#include <algorithm>
#include <string>

#include "ops/graph/op.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/train_graph.h"

namespace leat {
namespace {

// Changes the type `from` to the type `to`, wherever the graph names it.
void convert(Graph& out, DType from, DType to) {
  const auto name = std::string(dtype_name(to));
  const int64_t code = dtype_onnx_code(to), old = dtype_onnx_code(from);
  for (ValueId input : out.inputs()) {
    if (out.value(input).type.dtype == from) out.value(input).type.dtype = to;
  }
  for (NodeId id = 0; id < out.nodes(); ++id) {
    Node& node = out.node(id);
    // The loop goes over a copy, because it changes the node's own attributes. A type is written as
    // a tensor, as a name, or as ONNX's number.
    for (const auto& [key, attr] : Attrs(node.attrs)) {
      if (const auto* tensor = std::get_if<Tensor>(&attr); tensor && tensor->dtype() == from)
        node.attrs[key] = tensor->cast(to);
      if (const auto* text = std::get_if<std::string>(&attr);
          text && key == "dtype" && *text == dtype_name(from))
        node.attrs[key] = name;
      if (const auto* number = std::get_if<int64_t>(&attr);
          number && (key == "dtype" || key == "to") && *number == old)
        node.attrs[key] = code;
    }
    // Defaults are f32.
    if (from != DType::f32) continue;
    const auto has_default = [&](std::string_view attr) {
      return !has_attr(node.attrs, attr) &&
             std::any_of(node.op->attributes.begin(), node.op->attributes.end(),
                         [&](const AttrDef& d) { return d.name == attr; });
    };
    if (is_op(node, "leat.Variable") && has_default("dtype")) node.attrs["dtype"] = name;
    if (node.op->random && node.inputs.empty() && has_default("dtype")) node.attrs["dtype"] = code;
    if (is_op(node, "ConstantOfShape") && has_default("value"))
      node.attrs["value"] = Tensor(to, Shape({1}));
  }
}

}  // namespace

Result<Graph> convert_precision(const Graph& graph, DType precision) {
  Graph out = graph;
  if (precision != DType::f32) convert(out, DType::f32, precision);
  return out;
}

DType narrow_variables(const Graph& graph) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!is_op(node, "leat.Variable")) continue;
    const DType dtype =
        dtype_from_name(attr_string(node.attrs, "dtype", "float")).value_or(DType::invalid);
    if (is_16bit_float(dtype)) return dtype;
  }
  return DType::invalid;
}

Graph widen(Graph graph) {
  convert(graph, DType::bf16, DType::f32);
  convert(graph, DType::f16, DType::f32);
  return graph;
}

}  // namespace leat
