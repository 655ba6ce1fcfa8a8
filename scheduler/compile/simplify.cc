#include <algorithm>
#include <functional>
#include <unordered_map>

#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

// Both maps are sorted by name, so that one pass compares them.
bool equal_attrs(const Attrs& a, const Attrs& b) {
  if (a.size() != b.size()) return false;
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
    if (i->first != j->first || !attrs_equal(i->second, j->second)) return false;
  }
  return true;
}

// A node with an effect, or one that draws something new each time, stays by itself. Two nodes that
// name one variable are one resource.
bool may_merge(const Node& node) {
  return node.op->pure() || (node.op->make_resource && !node.op->stateful);
}

// A node of the new graph that others may turn out to be equal to.
struct Made {
  NodeId id = kNone;
  size_t outputs = 0;  // of the node that it was made for
};

class Simplifier {
 public:
  // Takes `known` apart.
  Simplifier(Graph& known, const Inference& inference, const Borders& borders)
      : known_(known),
        inference_(inference),
        constant_(known.catalogue().find("Constant")),
        is_target_(known.nodes(), false),
        rewriter_(std::move(known)) {
    for (NodeId target : borders.targets) is_target_[target] = true;
  }

  Result<Graph> run(Borders& borders) {
    LEAT_ASSIGN_OR_RETURN(const auto order, known_.topological_order());
    for (NodeId id : order) {
      // A node is replaced only after its producers, so equal inputs have become the same value by
      // then.
      if (is_known(id))
        fold(id);
      else if (may_merge(known_.node(id)))
        merge(id);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish(borders);
  }

 private:
  // True if inference knows the elements of all outputs. A target is kept, because a node is asked
  // for.
  bool is_known(NodeId id) const {
    const Node& node = known_.node(id);
    return node.op->pure() && node.op != constant_ && !node.outputs.empty() && !is_target_[id] &&
           std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return v == kNone || inference_.constant(v); });
  }

  void fold(NodeId id) {
    const Node& node = known_.node(id);
    for (ValueId output : node.outputs) {
      if (output == kNone) continue;
      const NodeId made =
          rewriter_.add(*constant_, {}, {{"value", *inference_.constant(output)}}, 1);
      rewriter_.to().node(made).device = node.device;
      // A constant waits for nothing, so the control edges of the node are left out.
      rewriter_.to().node(made).source = node.source;
      const ValueId value = rewriter_.to().node(made).outputs[0];
      rewriter_.to().value(value).type = known_.value(output).type;
      rewriter_.to().set_value_name(value, known_.value_name(output));
      rewriter_.map_value(output, value);
      rewriter_.map_node(id, made);
    }
  }

  void merge(NodeId id) {
    const Node& node = known_.node(id);
    const size_t outputs = node.outputs.size();
    auto& candidates = made_[hash(node)];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](const Made& made) {
      return made.outputs == outputs && is_equal(node, rewriter_.to().node(made.id));
    });
    // The first of equal nodes stays, so the result depends on the order of the graph alone.
    if (same == candidates.end()) {
      candidates.push_back({rewriter_.copy(id), outputs});
      return;
    }
    rewriter_.map_node(id, same->id);
    for (size_t i = 0; i < outputs; ++i) {
      const ValueId old = node.outputs[i];
      if (old == kNone) continue;
      // The node that stays may lack an output that only this one had.
      const ValueId value = rewriter_.to().ensure_output(same->id, static_cast<int>(i));
      rewriter_.to().value(value).type = known_.value(old).type;
      if (rewriter_.to().value_name(value).empty())
        rewriter_.to().set_value_name(value, known_.value_name(old));
      rewriter_.map_value(old, value);
    }
  }

  // Equal nodes have equal hashes. Attributes are compared afterwards: tensors are long.
  size_t hash(const Node& node) const {
    size_t h = std::hash<const OpDef*>()(node.op) + node.outputs.size();
    const auto mix = [&](size_t more) { h = (h ^ more) * 0x9e3779b97f4a7c15u + (h >> 29); };
    for (ValueId input : node.inputs) mix(rewriter_.value(input));
    for (NodeId before : node.after) mix(rewriter_.node(before));
    mix(std::hash<std::string>()(node.device));
    for (const auto& [name, attr] : node.attrs) {
      if (const auto* number = std::get_if<int64_t>(&attr)) mix(static_cast<size_t>(*number));
      if (const auto* number = std::get_if<double>(&attr)) mix(std::hash<double>()(*number));
      if (const auto* text = std::get_if<std::string>(&attr)) mix(std::hash<std::string>()(*text));
    }
    return h;
  }

  // `old` is of the graph as it was.
  bool is_equal(const Node& old, const Node& made) const {
    const auto inputs = [&](ValueId a, ValueId b) { return rewriter_.value(a) == b; };
    const auto after = [&](NodeId a, NodeId b) { return rewriter_.node(a) == b; };
    return old.op == made.op && old.device == made.device &&
           std::equal(old.inputs.begin(), old.inputs.end(), made.inputs.begin(), made.inputs.end(),
                      inputs) &&
           std::equal(old.after.begin(), old.after.end(), made.after.begin(), made.after.end(),
                      after) &&
           (!old.op->per_shard || old.first_row == made.first_row) &&
           equal_attrs(old.attrs, made.attrs);
  }

  const Graph& known_;
  const Inference& inference_;
  const OpDef* constant_;
  std::vector<bool> is_target_;  // by node
  Rewriter rewriter_;
  std::unordered_map<size_t, std::vector<Made>> made_;  // by hash
};

}  // namespace

Result<Graph> simplify(Graph graph, Borders& borders) {
  Graph out(graph.catalogue());
  {
    // The inference refers to the graph, which the Simplifier takes apart. Both end before prune().
    Inference inference(graph);
    LEAT_RETURN_IF_ERROR(inference.run());
    LEAT_ASSIGN_OR_RETURN(out, Simplifier(graph, inference, borders).run(borders));
  }
  graph = Graph(graph.catalogue());
  return prune(std::move(out), borders);
}

}  // namespace leat
