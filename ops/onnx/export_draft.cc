#include "ops/onnx/export_draft.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "devices/base/text.h"
#include "ops/definitions/constant.h"
#include "ops/graph/op.h"
#include "ops/onnx/import.h"
#include "ops/onnx/narrow_tensors.h"

namespace leat {
namespace {

// Ops with outputs that ONNX does not have, or not in inference, and how many it has.
constexpr std::pair<std::string_view, size_t> kOutputs[] = {
    {"Attention", 4}, {"BatchNormalization", 1}, {"GlobalMaxPool", 1}, {"MaxPool", 2}};

constexpr std::string_view kActivation = "leat_activation";

// Turns one graph into a draft.
class Exporter {
 public:
  explicit Exporter(const Graph& graph)
      : graph_(graph), names_(graph.values()), readers_(graph.consumers()) {}

  Result<ExportDraft> run() {
    LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph_.topological_order());
    find_needed();
    name_values(order);
    for (const NodeId id : order) {
      if (needed_.contains(id)) add(id);
    }
    LEAT_RETURN_IF_ERROR(report_lacking());
    add_borders();
    drop_dead();
    return std::move(out_);
  }

 private:
  bool is(NodeId id, std::string_view full_name) const {
    return graph_.node(id).op->full_name() == full_name;
  }
  NodeId producer(ValueId value) const {
    return value == kNone ? kNone : graph_.value(value).producer;
  }

  // The nodes that the outputs depend on, found backwards. Writes to variables are none of them.
  void find_needed() {
    std::vector<ValueId> open = graph_.outputs();
    while (!open.empty()) {
      const NodeId id = producer(open.back());
      open.pop_back();
      if (id == kNone || !needed_.insert(id).second) continue;
      const Node& node = graph_.node(id);
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  // The borders keep their names first, then the variables; other values give way.
  void name_values(const std::vector<NodeId>& order) {
    const auto keep = [&](ValueId id, std::string_view fallback) {
      if (!names_[id].empty()) return;
      const std::string& own = graph_.value_name(id);
      names_[id] = fresh_.add(own.empty() || own[0] == '%' ? std::string(fallback) : own);
    };
    for (const ValueId input : graph_.inputs()) keep(input, "input");
    for (const ValueId output : graph_.outputs()) {
      if (!is_read(output)) keep(output, "output");
    }
    for (const NodeId id : order) {
      if (needed_.contains(id) && is(id, "leat.Read")) name_read(id);
    }
    for (const NodeId id : order) {
      if (!needed_.contains(id)) continue;
      for (const ValueId output : graph_.node(id).outputs) {
        if (output != kNone) keep(output, graph_.node(id).op->name);
      }
    }
  }

  bool is_read(ValueId value) const {
    return producer(value) != kNone && is(producer(value), "leat.Read");
  }

  // All Reads of a variable are one initializer.
  void name_read(NodeId id) {
    const Node& read = graph_.node(id);
    const auto known = initializers_.find(read.inputs[0]);
    if (known != initializers_.end()) {
      names_[read.outputs[0]] = known->second;
      return;
    }
    const NodeId maker = producer(read.inputs[0]);
    if (maker == kNone || !is(maker, "leat.Variable")) return;
    const Attrs& attrs = graph_.node(maker).attrs;
    ExportedVariable variable;
    variable.variable = attr_string(attrs, "name");
    variable.name = fresh_.add(variable.variable);
    variable.trained = attr_int(attrs, "trainable", 1) != 0;
    const ValueType& type = graph_.value(read.outputs[0]).type;
    variable.dtype = type.dtype;
    variable.shape = type.shape.concrete().value_or(Shape());
    names_[read.outputs[0]] = variable.name;
    initializers_[read.inputs[0]] = variable.name;
    out_.variables.push_back(std::move(variable));
  }

  DraftName name(ValueId value) const { return {value == kNone ? "" : names_[value], 0}; }

  DraftNode copy_of(NodeId id) const {
    const Node& node = graph_.node(id);
    DraftNode out;
    out.op = node.op->name;
    if (!node.name.starts_with('%')) out.name = node.name;
    for (const ValueId input : node.inputs) out.inputs.push_back(name(input));
    for (const ValueId output : node.outputs) out.outputs.push_back(name(output));
    for (const auto& [key, attr] : node.attrs) out.attrs.emplace(key, attr);
    return out;
  }

  void put(DraftNode node) {
    while (!node.inputs.empty() && node.inputs.back().name.empty()) node.inputs.pop_back();
    while (!node.outputs.empty() && node.outputs.back().name.empty()) node.outputs.pop_back();
    out_.draft.nodes.push_back(std::move(node));
  }

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const bool has_region = std::any_of(node.attrs.begin(), node.attrs.end(), [](const auto& attr) {
      return std::holds_alternative<std::shared_ptr<Graph>>(attr.second);
    });
    if (has_region) return lack(id, "has a region");
    if (node.op->full_name() == "leat.Widen") return add_cast(id);
    if (!node.op->domain.empty()) return add_own(id);
    if (node.op->name == "Constant") return add_constant(id, constant_value(node.attrs));
    if (node.op->name == "CastLike") return add_cast(id);
    DraftNode out = copy_of(id);
    for (const auto& [op, count] : kOutputs) {
      if (op != node.op->name || out.outputs.size() <= count) continue;
      for (size_t i = count; i < node.outputs.size(); ++i) {
        if (is_needed(node.outputs[i]))
          return lack(id, cat("its output '", names_[node.outputs[i]], "' is not in ONNX"));
      }
      out.outputs.resize(count);
    }
    // Both drop nothing and update nothing then.
    if (node.op->name == "Dropout" && out.inputs.size() > 2) out.inputs.resize(2);
    if (node.op->name == "BatchNormalization") {
      out.attrs.erase("training_mode");
      if (attr_int(node.attrs, kUnbiasedAttr) == 0) out.attrs.erase(std::string(kUnbiasedAttr));
    }
    if (node.op->name == "Split" && out.inputs.size() == 1) set_sizes(node, out);
    // Opset 16 had images alone.
    if (node.op->name == "GridSample" && graph_.value(node.inputs[0]).type.shape.rank() != 4)
      out_.least_opsets.emplace(out.outputs[0].name, 20);
    if (out.attrs.contains(kActivation)) return add_with_relu(std::move(out));
    if (node.op->name == "ConstantOfShape" &&
        opset_with("ConstantOfShape", graph_.value(node.outputs[0]).type.dtype) == 0)
      return lack(id, "has elements of 6 bits");
    put_in_types(node, std::move(out));
  }

  void put_cast(const DraftName& from, const DraftName& to, DType dtype) {
    DraftNode cast;
    cast.op = "Cast";
    cast.inputs = {from};
    cast.outputs = {to};
    cast.attrs.emplace("to", Attr(int64_t{dtype_onnx_code(dtype)}));
    // Infinities stay.
    if (is_narrow_float(dtype)) cast.attrs.emplace("saturate", Attr(int64_t{0}));
    need_opset(cast, opset_with("Cast", dtype));
    put(std::move(cast));
  }

  void need_opset(const DraftNode& node, int64_t opset) {
    int64_t& least = out_.least_opsets[node.outputs[0].name];
    least = std::max(least, opset);
  }

  // Adds a node whose inputs and outputs are those of `node`. It moves floats in place of a narrow
  // type that ONNX's op lacks: they hold all numbers of that type.
  void put_in_types(const Node& node, DraftNode made) {
    int64_t least = 1;
    const auto lacks = [&](ValueId value) {
      const DType dtype = value == kNone ? DType::invalid : graph_.value(value).type.dtype;
      const int64_t opset = is_narrow(dtype) ? opset_with(made.op, dtype) : 1;
      least = std::max(least, opset);
      return opset == 0;
    };
    for (size_t i = 0; i < made.inputs.size() && i < node.inputs.size(); ++i) {
      if (!lacks(node.inputs[i])) continue;
      const DraftName wide{fresh_.add(made.inputs[i].name + "_wide"), 0};
      put_cast(made.inputs[i], wide, DType::f32);
      need_opset(out_.draft.nodes.back(),
                 opset_with("Cast", graph_.value(node.inputs[i]).type.dtype));
      made.inputs[i] = wide;
    }
    std::vector<std::pair<DraftName, size_t>> narrow;
    for (size_t i = 0; i < made.outputs.size() && i < node.outputs.size(); ++i) {
      if (!lacks(node.outputs[i])) continue;
      narrow.emplace_back(made.outputs[i], i);
      made.outputs[i] = {fresh_.add(made.outputs[i].name + "_wide"), 0};
    }
    const std::vector<DraftName> outputs = made.outputs;
    if (least > 1) need_opset(made, least);
    put(std::move(made));
    for (const auto& [name, i] : narrow)
      put_cast(outputs[i], name, graph_.value(node.outputs[i]).type.dtype);
  }

  bool is_needed(ValueId value) const {
    if (value == kNone) return false;
    const auto& readers = readers_[value];
    const auto& outputs = graph_.outputs();
    return std::find(outputs.begin(), outputs.end(), value) != outputs.end() ||
           std::any_of(readers.begin(), readers.end(),
                       [&](NodeId reader) { return needed_.contains(reader); });
  }

  // ONNX has a node of its own for the activation. "" is none.
  void add_with_relu(DraftNode node) {
    const std::string activation =
        std::get<std::string>(std::get<Attr>(node.attrs.find(kActivation)->second));
    node.attrs.erase(node.attrs.find(kActivation));
    if (activation.empty()) return put(std::move(node));
    DraftNode relu;
    relu.op = "Relu";
    relu.outputs = node.outputs;
    node.outputs = {{fresh_.add(cat(node.outputs[0].name, "_linear")), 0}};
    relu.inputs = node.outputs;
    put(std::move(node));
    put(std::move(relu));
  }

  // Opsets before 18 have no num_outputs, and every opset takes the sizes.
  void set_sizes(const Node& node, DraftNode& split) {
    const SymbolicShape& shape = graph_.value(node.inputs[0]).type.shape;
    const int64_t axis = attr_int(node.attrs, "axis", 0);
    const int along = static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
    std::vector<int64_t> sizes;
    for (const ValueId output : node.outputs) {
      const auto size =
          output == kNone ? std::nullopt : constant_of(graph_.value(output).type.shape[along]);
      if (!size) return;
      sizes.push_back(*size);
    }
    DraftNode made;
    made.op = "Constant";
    made.outputs = {{fresh_.add("split"), 0}};
    const Shape count{static_cast<int64_t>(sizes.size())};
    made.attrs.emplace("value", Attr(Tensor::of<int64_t>(count, sizes)));
    split.inputs.push_back(made.outputs[0]);
    split.attrs.erase("num_outputs");
    put(std::move(made));
  }

  // Variables and their Reads became initializers.
  void add_own(NodeId id) {
    if (is(id, "leat.Variable")) return;
    if (is(id, "leat.Read") && !names_[graph_.node(id).outputs[0]].empty() &&
        initializers_.contains(graph_.node(id).inputs[0])) {
      return;
    }
    if (is(id, "leat.Quantize") || is(id, "leat.Dequantize")) {
      export_quantize(graph_, id, names_, fresh_, out_.draft.nodes);
      const Node& node = graph_.node(id);
      const ValueId stored = is(id, "leat.Quantize") ? node.outputs[0] : node.inputs[0];
      return need_opset(out_.draft.nodes.back(),
                        opset_with("Cast", graph_.value(stored).type.dtype));
    }
    if (!is(id, "leat.Recurrent")) return lack(id, "");
    const Status made = export_recurrent(graph_, id, names_, fresh_, out_.draft.nodes);
    if (!made.ok()) lack(id, made.message());
  }

  void add_constant(NodeId id, const std::optional<Tensor>& value) {
    if (!value) return lack(id, "has no value");
    DraftNode out = copy_of(id);
    out.op = "Constant";
    out.inputs.clear();
    out.attrs.clear();
    const bool fits = opset_with("Constant", value->dtype()) > 0;
    out.attrs.emplace("value", Attr(fits ? *value : value->cast(DType::f32)));
    put_in_types(graph_.node(id), std::move(out));
  }

  // The types are known, so a CastLike is a Cast, and of a constant another constant.
  void add_cast(NodeId id) {
    const Node& node = graph_.node(id);
    const DType to = graph_.value(node.outputs[0]).type.dtype;
    const NodeId from = producer(node.inputs[0]);
    if (from != kNone && is(from, "Constant") && !is_narrow(to)) {
      const auto value = constant_value(graph_.node(from).attrs);
      const bool exact = value && (is_float(to) || is_int(value->dtype()));
      if (exact) return add_constant(id, value->cast(to));
    }
    DraftNode out = copy_of(id);
    out.op = "Cast";
    out.inputs.resize(1);
    if (!is_narrow(to)) out.attrs.clear();
    out.attrs.emplace("to", Attr(int64_t{dtype_onnx_code(to)}));
    put_in_types(node, std::move(out));
  }

  void lack(NodeId id, std::string_view why) {
    lacking_.push_back(why.empty() ? graph_.describe_node(id)
                                   : cat(graph_.describe_node(id), " (", why, ")"));
  }

  // Reports all of them at once.
  Status report_lacking() const {
    constexpr size_t kShown = 20;
    if (lacking_.empty()) return {};
    const size_t shown = std::min(lacking_.size(), kShown);
    return unimplemented(
        cat("graph '", graph_.name, "': expected nodes that ONNX has, received ",
            join(std::span(lacking_).first(shown), ", "),
            lacking_.size() > shown ? cat(" and ", lacking_.size() - shown, " more") : ""));
  }

  DraftType type_of(ValueId value) const {
    const ValueType& type = graph_.value(value).type;
    DraftType out;
    out.kind = type.kind;
    out.dtype = type.dtype;
    for (const Dim dim : type.shape.dims()) {
      DraftDim size;
      // Names that inference made up would say nothing.
      const std::string text = graph_.dim_text(dim);
      if (dim.is_constant()) size.size = dim.factor;
      if (!dim.is_constant() && graph_.symbol_info(dim.symbol).name[0] != '_') size.symbol = text;
      out.dims.push_back(std::move(size));
    }
    return out;
  }

  void add_borders() {
    out_.draft.name = graph_.name;
    for (const ValueId input : graph_.inputs())
      out_.draft.inputs.push_back({name(input), type_of(input)});
    std::set<std::string> listed;
    for (const ValueId output : graph_.outputs()) {
      DraftName own = name(output);
      if (!listed.insert(own.name).second) own = again(own);
      out_.draft.outputs.push_back({own, type_of(output)});
    }
  }

  // ONNX takes each output once.
  DraftName again(const DraftName& output) {
    DraftNode copy;
    copy.op = "Identity";
    copy.inputs = {output};
    copy.outputs = {{fresh_.add(output.name), 0}};
    out_.draft.nodes.push_back(copy);
    return copy.outputs[0];
  }

  // Removes the nodes whose outputs no node reads: a CastLike of a constant leaves its constant
  // behind, and an LSTM the products that it computes itself.
  void drop_dead() {
    std::set<std::string> read;
    for (const DraftValue& output : out_.draft.outputs) read.insert(output.name.name);
    std::vector<DraftNode> kept;
    for (auto node = out_.draft.nodes.rbegin(); node != out_.draft.nodes.rend(); ++node) {
      const bool alive =
          std::any_of(node->outputs.begin(), node->outputs.end(),
                      [&](const DraftName& output) { return read.contains(output.name); });
      if (!alive) continue;
      for (const DraftName& input : node->inputs) read.insert(input.name);
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    for (size_t i = 0; i < kept.size(); ++i) kept[i].offset = i;
    out_.draft.nodes = std::move(kept);
    std::erase_if(out_.variables,
                  [&](const ExportedVariable& v) { return !read.contains(v.name); });
  }

  const Graph& graph_;
  std::vector<std::string> names_;            // by value
  std::vector<std::vector<NodeId>> readers_;  // by value
  ExportNames fresh_;
  std::set<NodeId> needed_;
  std::map<ValueId, std::string> initializers_;  // by the variable's resource
  std::vector<std::string> lacking_;
  ExportDraft out_;
};

}  // namespace

std::string ExportNames::add(const std::string& wanted) {
  std::string name = wanted;
  while (name.empty() || !taken_.insert(name).second) name = cat(wanted, "_", ++next_);
  return name;
}

Result<ExportDraft> export_draft(const Graph& graph) { return Exporter(graph).run(); }

}  // namespace leat
