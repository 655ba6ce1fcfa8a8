#include <algorithm>

#include "ops/op.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

// Ops that can apply an activation to what they are about to store declare this attribute.
constexpr std::string_view kActivationAttr = "leat_activation";

bool takes_activation(const Node& node) {
  const auto& attrs = node.op->attributes;
  const bool declared = std::any_of(attrs.begin(), attrs.end(),
                                    [](const AttrDef& a) { return a.name == kActivationAttr; });
  return declared && attr_string(node.attrs, kActivationAttr).empty() && node.outputs.size() == 1;
}

// The node whose activation can move into `id`, or kNone.
NodeId activation_after(const Graph& graph, NodeId id,
                        const std::vector<std::vector<NodeId>>& consumers, const Borders& borders) {
  const Node& node = graph.node(id);
  if (!takes_activation(node) || node.outputs[0] == kNone) return kNone;
  const auto& readers = consumers[node.outputs[0]];
  if (readers.size() != 1) return kNone;
  const bool fetched = std::find(borders.fetches.begin(), borders.fetches.end(), node.outputs[0]) !=
                       borders.fetches.end();
  const Node& reader = graph.node(readers[0]);
  if (fetched || reader.op->full_name() != "Relu" || !reader.after.empty()) return kNone;
  return readers[0];
}

}  // namespace

Result<Graph> fuse(const Graph& graph, Borders& borders, std::vector<uint32_t>& depth) {
  const auto consumers = graph.consumers();
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  Rewriter rewriter(graph);
  std::vector<uint32_t> new_depth;
  std::vector<bool> absorbed(graph.nodes(), false);
  for (NodeId id : order) {
    if (absorbed[id]) continue;
    const NodeId activation = activation_after(graph, id, consumers, borders);
    const NodeId made = rewriter.copy(id);
    new_depth.push_back(depth[id]);
    if (activation == kNone) continue;
    Node& node = rewriter.to().node(made);
    node.attrs[std::string(kActivationAttr)] = std::string("relu");
    const ValueId result = graph.node(activation).outputs[0];
    rewriter.to().set_value_name(node.outputs[0], graph.value_name(result));
    rewriter.map_value(result, node.outputs[0]);
    rewriter.map_node(activation, made);
    absorbed[activation] = true;
  }
  depth = std::move(new_depth);
  return rewriter.finish(borders);
}

}  // namespace leat
