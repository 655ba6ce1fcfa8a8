#include <map>
#include <set>
#include <tuple>

#include "ops/op.h"
#include "ops/validate.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

// Equal keys compute equal values. Attributes are compared afterwards: tensors do not order.
using Key =
    std::tuple<const OpDef*, std::vector<ValueId>, std::vector<NodeId>, std::string, size_t>;

bool equal_attrs(const Attrs& a, const Attrs& b) {
  if (a.size() != b.size()) return false;
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
    if (i->first != j->first || !attrs_equal(i->second, j->second)) return false;
  }
  return true;
}

bool may_merge(const Node& node) {
  return node.op->pure() || (node.op->make_resource && !node.op->stateful);
}

}  // namespace

Result<Graph> simplify(const Graph& graph, Borders& borders) {
  Graph known = graph;
  Inference inference(known);
  LEAT_RETURN_IF_ERROR(inference.run());
  const OpDef* constant = graph.catalogue().find("Constant");
  LEAT_ASSIGN_OR_RETURN(const auto order, known.topological_order());
  const std::set<NodeId> targets(borders.targets.begin(), borders.targets.end());
  Rewriter rewriter(known);
  std::map<Key, std::vector<NodeId>> seen;
  for (NodeId id : order) {
    const Node& node = known.node(id);
    const bool all_known =
        node.op->pure() && node.op != constant && !node.outputs.empty() && !targets.count(id) &&
        std::all_of(node.outputs.begin(), node.outputs.end(),
                    [&](ValueId v) { return v == kNone || inference.constant(v); });
    if (all_known) {
      for (ValueId output : node.outputs) {
        if (output == kNone) continue;
        const NodeId made =
            rewriter.add(*constant, {}, {{"value", *inference.constant(output)}}, 1);
        rewriter.to().node(made).device = node.device;
        rewriter.to().node(made).source = node.source;
        const ValueId value = rewriter.to().node(made).outputs[0];
        rewriter.to().value(value).type = known.value(output).type;
        rewriter.to().set_value_name(value, known.value_name(output));
        rewriter.map_value(output, value);
        rewriter.map_node(id, made);
      }
      continue;
    }
    if (!may_merge(node)) {
      rewriter.copy(id);
      continue;
    }
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(rewriter.value(input));
    std::vector<NodeId> after;
    for (NodeId before : node.after) after.push_back(rewriter.node(before));
    auto& candidates = seen[{node.op, inputs, after, node.device, node.outputs.size()}];
    NodeId same = kNone;
    for (NodeId candidate : candidates) {
      if (equal_attrs(rewriter.to().node(candidate).attrs, node.attrs)) same = candidate;
    }
    if (same == kNone) {
      candidates.push_back(rewriter.copy(id));
      continue;
    }
    rewriter.map_node(id, same);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const ValueId value = rewriter.to().ensure_output(same, static_cast<int>(i));
      rewriter.to().value(value).type = known.value(node.outputs[i]).type;
      if (rewriter.to().value_name(value).empty())
        rewriter.to().set_value_name(value, known.value_name(node.outputs[i]));
      rewriter.map_value(node.outputs[i], value);
    }
  }
  LEAT_ASSIGN_OR_RETURN(Graph out, rewriter.finish(borders));
  return prune(out, borders);
}

}  // namespace leat
