#include "ops/layers/region_copier.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/layers/control_flow.h"
#include "ops/layers/layers.h"

namespace leat {
namespace {

// A number that no node of the graph or its regions draws by.
uint32_t first_source(const Graph& graph) {
  uint32_t next = 0;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.source != kNone) next = std::max(next, node.source + 1);
    for (const auto& [name, attr] : node.attrs) {
      const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr);
      if (region != nullptr) next = std::max(next, first_source(**region));
    }
  }
  return next;
}

}  // namespace

// A graph whose nodes are being copied: the whole graph, or a region.
struct RegionCopier::CopiedGraph {
  const Graph& from;
  ValueIds values = ValueIds(from.values(), kNone);                      // by old value
  std::vector<NodeId> nodes = std::vector<NodeId>(from.nodes(), kNone);  // by old node
  // Of a region: the names that its nodes begin with, the device of those that name none, the nodes
  // that run before all of it, and whether it has been copied before.
  bool is_region = false;
  std::string prefix = {};
  std::string device = {};
  std::vector<NodeId> after = {};
  bool is_repeated = false;

  // The new values of old ones, kNone for kNone.
  ValueIds values_of(const ValueIds& old) const {
    ValueIds now;
    for (const ValueId value : old) now.push_back(value == kNone ? kNone : values[value]);
    return now;
  }
  // The new nodes that run before a node.
  std::vector<NodeId> befores(const Node& node) const {
    std::vector<NodeId> before = after;
    for (const NodeId old : node.after) {
      if (nodes[old] != kNone) before.push_back(nodes[old]);
    }
    return before;
  }
  // "scan/3/add": the node's name, or that of its output, or its op.
  std::string name_in(NodeId id) const {
    const Node& node = from.node(id);
    std::string name = node.name;
    // A part of a composite stays one: "%Mish 'act' of scan/3".
    if (name.starts_with('%')) return cut_utf8(cat(name, " of ", prefix), limits::kNameLength);
    if (name.empty() && !node.outputs.empty() && node.outputs[0] != kNone)
      name = from.value_name(node.outputs[0]);
    if (name.empty()) name = node.op->name;
    return cut_utf8(cat(prefix, "/", name), limits::kNameLength);
  }
};

RegionCopier::RegionCopier(const Graph& from)
    : from_(from), to_(from.catalogue()), inference_(to_), next_source_(first_source(from)) {}

Result<Graph> RegionCopier::run() {
  LEAT_RETURN_IF_ERROR(check_limits(from_));
  to_.name = from_.name;
  CopiedGraph whole{from_};
  for (SymbolId id = 0; id < from_.symbols(); ++id)
    to_.symbol_info(to_.fresh_symbol()) = from_.symbol_info(id);
  for (const ValueId input : from_.inputs())
    whole.values[input] = to_.add_input(from_.value_name(input), from_.value(input).type);
  LEAT_RETURN_IF_ERROR(copy_nodes(whole));
  for (const ValueId output : from_.outputs()) to_.add_output(whole.values[output]);
  return std::move(to_);
}

Status RegionCopier::copy_nodes(CopiedGraph& graph) {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.from.topological_order());
  for (const NodeId id : order) {
    const OpDef& op = *graph.from.node(id).op;
    LEAT_RETURN_IF_ERROR(is_control_flow(op) ? replace(graph, id) : copy(graph, id));
  }
  return {};
}

Status RegionCopier::copy(CopiedGraph& graph, NodeId id) {
  const Node& old = graph.from.node(id);
  if (graph.is_region) LEAT_RETURN_IF_ERROR(check_in_region(graph, id));
  const NodeId made = to_.add_node(*old.op, graph.values_of(old.inputs), old.attrs, 0);
  for (size_t i = 0; i < old.outputs.size(); ++i) {
    if (old.outputs[i] == kNone) continue;
    const ValueId now = to_.ensure_output(made, static_cast<int>(i));
    if (!graph.is_region) to_.set_value_name(now, graph.from.value_name(old.outputs[i]));
    graph.values[old.outputs[i]] = now;
  }
  Node& node = to_.node(made);
  node.outputs.resize(old.outputs.size(), kNone);
  node.after = graph.befores(old);
  node.device = old.device.empty() ? graph.device : old.device;
  node.name = graph.is_region ? graph.name_in(id) : old.name;
  node.source = graph.is_repeated ? next_source_++ : old.source;
  node.first_row = old.first_row;
  graph.nodes[id] = made;
  return inference_.infer(made);
}

Status RegionCopier::count(std::string_view subject) {
  if (++made_ <= kMostUnrolledNodes) return {};
  return invalid_argument(cat("'", subject, "': expected at most ", kMostUnrolledNodes,
                              " nodes in all iterations and branches of a graph, received more; "
                              "use fewer iterations, or a smaller body"));
}

// A layer or a variable in a region would be one for each copy, and an effect could not be left
// out with its branch.
Status RegionCopier::check_in_region(const CopiedGraph& graph, NodeId id) {
  LEAT_RETURN_IF_ERROR(count(graph.prefix));
  const OpDef& op = *graph.from.node(id).op;
  if (!is_layer(op) && !op.stateful && !op.make_resource && op.writes.empty()) return {};
  return unimplemented(cat("'", graph.prefix, "': expected no ",
                           is_layer(op) ? "layers" : "effects", " in a region, received ",
                           graph.from.describe_node(id)));
}

Result<ValueIds> RegionCopier::emit_n(const ControlNode& of, std::string_view op, ValueIds inputs,
                                      Attrs attrs, int outputs) {
  const OpDef* def = to_.catalogue().find(op);
  if (def == nullptr) return unimplemented(cat(of.subject, ": this build lacks ", op));
  LEAT_RETURN_IF_ERROR(count(of.label));
  const NodeId made = to_.add_node(*def, std::move(inputs), std::move(attrs), outputs);
  Node& node = to_.node(made);
  node.device = of.device;
  node.after = of.after;
  node.name = of.label;
  const Status inferred = inference_.infer(made);
  if (!inferred.ok()) return inferred.while_doing(cat("expanding ", of.subject));
  return to_.node(made).outputs;
}
Result<ValueId> RegionCopier::emit(const ControlNode& of, std::string_view op, ValueIds inputs,
                                   Attrs attrs) {
  LEAT_ASSIGN_OR_RETURN(const ValueIds made,
                        emit_n(of, op, std::move(inputs), std::move(attrs), 1));
  return made[0];
}
Result<ValueId> RegionCopier::constant(const ControlNode& of, Tensor value) {
  return emit(of, "Constant", {}, {{"value", std::move(value)}});
}

Result<ValueId> RegionCopier::stacked(const ControlNode& of, const ValueIds& values, int64_t axis) {
  ValueIds parts;
  LEAT_ASSIGN_OR_RETURN(const ValueId axes, constant(of, Tensor::of<int64_t>({1}, {axis})));
  for (const ValueId value : values) {
    LEAT_ASSIGN_OR_RETURN(const ValueId part, emit(of, "Unsqueeze", {value, axes}));
    parts.push_back(part);
  }
  if (parts.size() == 1) return parts[0];
  return emit(of, "Concat", std::move(parts), {{"axis", axis}});
}

Result<ValueIds> RegionCopier::sliced(const ControlNode& of, ValueId value, int64_t axis) {
  const SymbolicShape& shape = to().value(value).type.shape;
  const int64_t rank = shape.rank();
  if (axis < -rank || axis >= rank) {
    return invalid_argument(cat(of.subject, ": axis of '", to().describe(value), "': expected in [",
                                -rank, ", ", rank - 1, "], received ", axis));
  }
  const Dim length = shape[static_cast<int>(axis < 0 ? axis + rank : axis)];
  if (!length.is_constant() || length.factor < 1) {
    return unimplemented(cat(of.subject,
                             ": expected at least one iteration, and a number of them "
                             "that is known when the graph is loaded; axis ",
                             axis, " of '", to().describe(value), "' has ", to().dim_text(length)));
  }
  ValueIds parts{value};
  if (length.factor > 1) {
    if (length.factor > static_cast<int64_t>(limits::kOperands)) {
      return invalid_argument(cat(of.subject, ": expected at most ", limits::kOperands,
                                  " iterations, received ", length.factor));
    }
    LEAT_ASSIGN_OR_RETURN(
        parts, emit_n(of, "Split", {value}, {{"axis", axis}, {"num_outputs", length.factor}},
                      static_cast<int>(length.factor)));
  }
  LEAT_ASSIGN_OR_RETURN(const ValueId axes, constant(of, Tensor::of<int64_t>({1}, {axis})));
  for (ValueId& part : parts) {
    LEAT_ASSIGN_OR_RETURN(part, emit(of, "Squeeze", {part, axes}));
  }
  return parts;
}

Result<const Graph*> RegionCopier::region_of(const ControlNode& of, std::string_view name) const {
  const auto attr = of.node.attrs.find(name);
  const auto* region =
      attr == of.node.attrs.end() ? nullptr : std::get_if<std::shared_ptr<Graph>>(&attr->second);
  if (region != nullptr) return region->get();
  return invalid_argument(cat(of.subject, ": the region '", name, "' is missing"));
}

Result<ValueIds> RegionCopier::inlined(const ControlNode& of, const Graph& region,
                                       ValueIds operands, std::string prefix, bool is_later) {
  if (region.inputs().size() != operands.size()) {
    return invalid_argument(cat(of.subject, ": expected a region of ", operands.size(),
                                " inputs, its captures included, received ",
                                region.inputs().size()));
  }
  CopiedGraph graph{region};
  graph.is_region = true;
  graph.prefix = std::move(prefix);
  graph.device = of.device;
  graph.after = of.after;
  graph.is_repeated = of.is_repeated || is_later;
  for (size_t i = 0; i < operands.size(); ++i) graph.values[region.inputs()[i]] = operands[i];
  const Status copied = copy_nodes(graph);
  if (!copied.ok()) return copied.while_doing(cat("expanding ", of.subject));
  ValueIds outputs = graph.values_of(region.outputs());
  if (std::count(outputs.begin(), outputs.end(), kNone) > 0)
    return invalid_argument(cat(of.subject, ": expected outputs that the region computes"));
  return outputs;
}

std::optional<bool> RegionCopier::known(ValueId value) const {
  const Tensor* tensor = inference_.constant(value);
  if (tensor == nullptr || tensor->elements() != 1) return std::nullopt;
  return tensor->at(0) != 0;
}

Status RegionCopier::replace(CopiedGraph& graph, NodeId id) {
  const Node& node = graph.from.node(id);
  ControlNode of{node,
                 graph.from.describe_node(id),
                 graph.is_region ? graph.name_in(id) : layer_name(graph.from, id),
                 graph.values_of(node.inputs),
                 {},
                 node.device.empty() ? graph.device : node.device,
                 graph.befores(node),
                 graph.is_repeated};
  const int64_t captures = attr_int(node.attrs, "captures", 0);
  if (captures < 0 || captures > static_cast<int64_t>(of.inputs.size())) {
    return invalid_argument(cat(of.subject, ": captures: expected in [0, ", of.inputs.size(),
                                "], received ", captures));
  }
  of.captures.assign(of.inputs.end() - captures, of.inputs.end());
  of.inputs.resize(of.inputs.size() - static_cast<size_t>(captures));
  // The first two operands of a Loop are optional.
  const auto first = of.inputs.begin() +
                     (node.op->name == "Loop" ? std::min<ptrdiff_t>(2, std::ssize(of.inputs)) : 0);
  if (std::count(first, of.inputs.end(), kNone) +
          std::count(of.captures.begin(), of.captures.end(), kNone) >
      0)
    return invalid_argument(cat(of.subject, ": expected all operands, one is absent"));
  LEAT_ASSIGN_OR_RETURN(const ValueIds results, results_of(of));
  return finish(graph, id, of, results);
}

// The results take the names of the node's outputs. A value that has a name, or is an input, is
// given on through an Identity.
Status RegionCopier::finish(CopiedGraph& graph, NodeId id, const ControlNode& of,
                            const ValueIds& results) {
  const ValueIds& outputs = of.node.outputs;
  if (outputs.size() > results.size()) {
    return invalid_argument(cat(of.subject, ": expected at most ", results.size(),
                                " outputs, received ", outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNone) continue;
    ValueId value = results[i];
    const std::string& name = graph.from.value_name(outputs[i]);
    const bool is_named = !graph.is_region && !name.empty();
    const bool is_taken = !to_.value_name(value).empty() || to_.value(value).producer == kNone;
    if (is_named && is_taken) {
      LEAT_ASSIGN_OR_RETURN(value, emit(of, "Identity", {value}));
    }
    if (is_named) to_.set_value_name(value, name);
    graph.values[outputs[i]] = value;
    const NodeId producer = to_.value(value).producer;
    if (graph.nodes[id] == kNone && producer != kNone) graph.nodes[id] = producer;
  }
  return {};
}

}  // namespace leat
