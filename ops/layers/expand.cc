#include <algorithm>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/validate.h"
#include "ops/layers/control_flow.h"
#include "ops/layers/layer.h"
#include "ops/layers/layers.h"

namespace leat {
namespace {

// A function that adds a layer's nodes and returns the value that replaces its output.
using Expand = ValueId (*)(LayerContext&);

std::map<std::string, Expand> expansions() {
  std::map<std::string, Expand> known;
  for (const Layer& layer : all_layers()) known[layer.op.name] = layer.expand;
  return known;
}

// Searches the regions, too: is_layer() looks at one node only.
bool has_layer(const Graph& graph) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (is_layer(*graph.node(id).op)) return true;
    for (const auto& [_, attr] : graph.node(id).attrs) {
      const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr);
      if (region != nullptr && has_layer(**region)) return true;
    }
  }
  return false;
}

// The error names the node whose region has the layer.
Status check_regions(const Graph& graph) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    for (const auto& [name, attr] : graph.node(id).attrs) {
      const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr);
      if (region == nullptr || !has_layer(**region)) continue;
      return invalid_argument(cat(graph.describe_node(id), ": expected no layers in the region '",
                                  name, "': their variables belong to the graph around it"));
    }
  }
  return {};
}

// The name of a variable is its key in checkpoints, so two with one name would share their state.
Status check_variable_names(const Graph& graph) {
  std::set<std::string> names;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).op->full_name() != "leat.Variable") continue;
    const std::string name = attr_string(graph.node(id).attrs, "name");
    if (names.insert(name).second) continue;
    return invalid_argument(cat("graph '", graph.name, "': two variables are called '", name,
                                "': give the layers' outputs names of their own"));
  }
  return {};
}

// A file may declare the types of its outputs: a wrong declaration is an error.
Status check_declared(const Graph& declared, const Graph& typed) {
  for (size_t i = 0; i < declared.outputs().size(); ++i) {
    const ValueId id = declared.outputs()[i];
    const ValueType &said = declared.value(id).type, &is = typed.value(typed.outputs()[i]).type;
    if (said.dtype == DType::invalid) continue;
    bool fits =
        said.kind == is.kind && said.dtype == is.dtype && said.shape.rank() == is.shape.rank();
    for (int d = 0; fits && d < said.shape.rank(); ++d) {
      const Dim a = said.shape[d], b = is.shape[d];
      fits = !a.is_constant() || !b.is_constant() || a == b;
    }
    if (fits) continue;
    return invalid_argument(cat("graph '", declared.name, "': the output '", declared.describe(id),
                                "' is declared ", declared.type_text(said), ", it is ",
                                typed.type_text(is)));
  }
  return {};
}

// Adds the nodes of one layer in its place.
Status expand_layer(GraphCopy& copy, NodeId layer, Expand expand, ValueId& training) {
  const Node& node = copy.from().node(layer);
  LayerContext ctx(copy, layer, layer_name(copy.from(), layer), training);
  const ValueId value = expand(ctx);
  LEAT_RETURN_IF_ERROR(
      ctx.status().while_doing(cat("expanding ", copy.from().describe_node(layer))));
  // The layer's last node takes its names, and the nodes that ran after the layer run after it.
  const NodeId producer = copy.to().value(value).producer;
  if (!node.outputs.empty() && node.outputs[0] != kNone) {
    copy.put(node.outputs[0], value);
    copy.to().set_value_name(value, copy.from().value_name(node.outputs[0]));
  }
  copy.to().node(producer).name = node.name;
  copy.put_node(layer, producer);
  return {};
}

}  // namespace

void register_layer_ops(Catalogue& catalogue) {
  for (Layer& layer : all_layers()) catalogue.add(std::move(layer.op));
}

bool is_layer(const OpDef& op) {
  static const std::map<std::string, Expand> kKnown = expansions();
  return op.domain == "leat" && kKnown.contains(op.name);
}

std::string layer_name(const Graph& graph, NodeId layer) {
  const Node& node = graph.node(layer);
  if (!node.outputs.empty() && node.outputs[0] != kNone) {
    const std::string& name = graph.value_name(node.outputs[0]);
    if (!name.empty()) return name;
  }
  if (!node.name.empty()) return node.name;
  int number = 0;
  for (NodeId id = 0; id <= layer; ++id) number += graph.node(id).op == node.op ? 1 : 0;
  std::string name = node.op->name;
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return cat(name, "_", number);
}

Result<Expansion> expand(const Graph& graph) {
  // Control flow goes first, since only its nodes have types. The copy gets them, and
  // check_declared() compares them with the declared ones of `graph`.
  LEAT_ASSIGN_OR_RETURN(Graph typed, expand_control_flow(graph));
  LEAT_RETURN_IF_ERROR(validate(typed));
  LEAT_RETURN_IF_ERROR(check_declared(graph, typed));
  LEAT_RETURN_IF_ERROR(check_regions(typed));
  LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> order, typed.topological_order());
  const std::map<std::string, Expand> known = expansions();
  GraphCopy copy(typed);
  std::vector<NodeId> origin;
  ValueId training = kNone;
  // `origin` grows with the new graph: all nodes that this turn added come from node `id`.
  for (const NodeId id : order) {
    const OpDef& op = *typed.node(id).op;
    if (is_layer(op)) {
      LEAT_RETURN_IF_ERROR(expand_layer(copy, id, known.at(op.name), training));
    } else {
      copy.copy(id);
    }
    origin.resize(copy.to().nodes(), id);
  }
  // Names are compared after the expansion, because layers make variables of their own.
  Expansion expansion{std::move(copy).finish(), std::move(origin)};
  LEAT_RETURN_IF_ERROR(check_variable_names(expansion.graph));
  LEAT_RETURN_IF_ERROR(
      validate(expansion.graph).while_doing("checking what the layers expanded to"));
  return expansion;
}

Result<Graph> expand_layers(const Graph& graph) {
  LEAT_ASSIGN_OR_RETURN(Expansion expansion, expand(graph));
  return std::move(expansion.graph);
}

}  // namespace leat
