// ONNX nodes of a leat.Quantize or a leat.Dequantize. Its zero may have any shape that broadcasts,
// which those of QuantizeLinear may not, so the nodes are those of its definition.
#include <utility>

#include "ops/definitions/quantize.h"
#include "ops/graph/op.h"
#include "ops/onnx/export_draft.h"

namespace leat {
namespace {

class QuantizeExporter {
 public:
  QuantizeExporter(const Graph& graph, const Node& node, const std::vector<std::string>& names,
                   ExportNames& fresh, std::vector<DraftNode>& out)
      : graph_(graph), node_(node), names_(names), fresh_(fresh), out_(out) {}

  void quantize() {
    const ValueId x = node_.inputs[0], zero = node_.inputs[1];
    const DType to = graph_.value(zero).type.dtype;
    const bool is_real = is_narrow_float(to);
    DraftName near = {names_[x], 0};
    if (!is_real) near = add("Round", {near});
    DraftName moved = add("Add", {as(DType::f32, near), as(DType::f32, {names_[zero], 0})});
    if (!is_real) {
      const QuantizedRange range = quantized_range(to);
      moved = add("Clip", {moved, number(range.least), number(range.most)});
    }
    Attrs attrs{{"to", int64_t{dtype_onnx_code(to)}}};
    if (is_real) attrs["saturate"] = attr_int(node_.attrs, "saturate", 1);
    finish("Cast", {moved}, attrs);
  }

  void dequantize() {
    const bool has_zero = node_.inputs.size() > 1 && node_.inputs[1] != kNone;
    const DraftName x = {names_[node_.inputs[0]], 0};
    const Attrs to{{"to", attr_int(node_.attrs, "to")}};
    if (!has_zero) return finish("Cast", {x}, to);
    // Doubles hold the difference of two integers of 32 bits.
    const DType in =
        graph_.value(node_.inputs[0]).type.dtype == DType::i32 ? DType::f64 : DType::f32;
    const DraftName zero = as(in, {names_[node_.inputs[1]], 0});
    finish("Cast", {add("Sub", {as(in, x), zero})}, to);
  }

 private:
  DraftNode make(std::string_view op, std::vector<DraftName> inputs, const Attrs& attrs) const {
    DraftNode made;
    made.op = op;
    made.inputs = std::move(inputs);
    for (const auto& [key, attr] : attrs) made.attrs.emplace(key, attr);
    return made;
  }
  DraftName add(std::string_view op, std::vector<DraftName> inputs, const Attrs& attrs = {}) {
    DraftNode made = make(op, std::move(inputs), attrs);
    made.outputs = {{fresh_.add(names_[node_.outputs[0]] + "_part"), 0}};
    out_.push_back(std::move(made));
    return out_.back().outputs[0];
  }
  DraftName as(DType dtype, const DraftName& value) {
    return add("Cast", {value}, {{"to", int64_t{dtype_onnx_code(dtype)}}});
  }
  DraftName number(double value) {
    return add("Constant", {}, {{"value", Tensor::scalar<float>(static_cast<float>(value))}});
  }
  void finish(std::string_view op, std::vector<DraftName> inputs, const Attrs& attrs) {
    DraftNode made = make(op, std::move(inputs), attrs);
    made.outputs = {{names_[node_.outputs[0]], 0}};
    if (!node_.name.starts_with('%')) made.name = node_.name;
    out_.push_back(std::move(made));
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<std::string>& names_;
  ExportNames& fresh_;
  std::vector<DraftNode>& out_;
};

}  // namespace

void export_quantize(const Graph& graph, NodeId id, const std::vector<std::string>& names,
                     ExportNames& fresh, std::vector<DraftNode>& out) {
  QuantizeExporter exporter(graph, graph.node(id), names, fresh, out);
  if (graph.node(id).op->name == "Quantize")
    exporter.quantize();
  else
    exporter.dequantize();
}

}  // namespace leat
