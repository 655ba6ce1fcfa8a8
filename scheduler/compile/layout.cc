#include <algorithm>
#include <map>

#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

using LayoutRule = std::function<LayoutSupport(const OpTypes&)>;
// The rule of an op on devices of a kind; null if it takes plain operands alone.
const LayoutRule* rule_of(const OpDef& op, const std::string& kind) {
  if (kind == "cpu") return op.layouts ? &op.layouts : nullptr;
  const auto at = op.device_layouts.find(kind);
  return at == op.device_layouts.end() ? nullptr : &at->second;
}

// True if any node wants blocked values; if none does, no value becomes blocked.
Result<bool> prefers_any(const Graph& graph, const std::string& kind) {
  const OpDef* reorder = graph.catalogue().find("leat.Reorder");
  if (!reorder || !reorder->kernels.contains(kind)) return false;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    const LayoutRule* rule = rule_of(*node.op, kind);
    if (!rule) continue;
    const Attrs attrs = with_defaults(*node.op, node.attrs);
    LEAT_ASSIGN_OR_RETURN(const OpTypes types, concrete_types(graph, node, attrs));
    if ((*rule)(types).prefers_blocked) return true;
  }
  return false;
}

class LayoutPass {
 public:
  LayoutPass(const Graph& graph, const std::vector<uint32_t>& depth, const std::string& kind)
      : graph_(graph),
        old_depth_(depth),
        kind_(kind),
        blocked_(kind == "cpu" ? Layout::channels16 : Layout::channels_last),
        rewriter_(graph) {}

  Result<Graph> run(Borders& borders, std::vector<uint32_t>& depth, LayoutChoice& layouts) {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    reorder_ = graph_.catalogue().find("leat.Reorder");
    for (ValueId input : graph_.inputs()) note(rewriter_.value(input), Layout::plain);
    for (NodeId id : order) LEAT_RETURN_IF_ERROR(visit(id));
    // The caller gets plain values. A Reorder for its sake comes at the end of the part.
    for (ValueId& fetch : borders.fetches) {
      const ValueId plain = in_layout(fetch, Layout::plain, 0);
      rewriter_.map_value(fetch, plain);
    }
    layouts.of_value = std::move(layout_);
    depth = std::move(depth_);
    return rewriter_.finish(borders);
  }

 private:
  Layout layout_of(ValueId old_value) const { return layout_[rewriter_.value(old_value)]; }
  // Records the layout of a value of the new graph.
  void note(ValueId value, Layout layout) {
    if (layout_.size() <= value) layout_.resize(value + 1, Layout::plain);
    layout_[value] = layout;
  }

  // Blocked if the op wants it, or can follow an input that is.
  Result<LayoutSupport> choose(NodeId id) {
    const Node& node = graph_.node(id);
    const LayoutRule* rule = rule_of(*node.op, kind_);
    if (!rule || !reorder_) return LayoutSupport{};
    const Attrs attrs = with_defaults(*node.op, node.attrs);
    LEAT_ASSIGN_OR_RETURN(const OpTypes types, concrete_types(graph_, node, attrs));
    const LayoutSupport support = (*rule)(types);
    // A convolution wants blocked operands. Other ops take them only from an input that is blocked
    // already, so that no Reorder is added for their sake.
    if (support.prefers_blocked) return support;
    // The mask has 32 bits; later inputs stay plain.
    for (size_t i = 0; i < std::min<size_t>(32, node.inputs.size()); ++i) {
      if ((support.inputs >> i & 1) && node.inputs[i] != kNone &&
          layout_of(node.inputs[i]) == blocked_)
        return support;
    }
    return LayoutSupport{};
  }

  // The value in that layout, through one Reorder node if it is not.
  ValueId in_layout(ValueId old_value, Layout layout, uint32_t depth) {
    const ValueId value = rewriter_.value(old_value);
    if (layout_[value] == layout) return value;
    // All readers that want the other layout share one Reorder.
    auto [it, fresh] = reordered_.try_emplace({value, layout}, kNone);
    if (!fresh) return it->second;
    const NodeId made = rewriter_.add(*reorder_, {value}, {}, 1);
    // The Reorder has as many hops before it as its reader or its input, whichever has more:
    // order() goes by hops.
    depth_.push_back(depth_.empty() ? 0 : std::max(depth, depth_of(value)));
    const ValueId out = rewriter_.to().node(made).outputs[0];
    rewriter_.to().value(out).type = rewriter_.to().value(value).type;
    rewriter_.to().set_value_name(out, rewriter_.to().value_name(value));
    note(out, layout);
    return it->second = out;
  }
  uint32_t depth_of(ValueId value) const {
    const NodeId producer = rewriter_.to().value(value).producer;
    return producer == kNone ? 0 : depth_[producer];
  }

  Status visit(NodeId id) {
    const Node& node = graph_.node(id);
    LEAT_ASSIGN_OR_RETURN(const LayoutSupport chosen, choose(id));
    // The copy reads reordered values; readers elsewhere keep theirs.
    std::vector<std::pair<ValueId, ValueId>> restore;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == kNone) continue;
      const Layout wanted = i < 32 && (chosen.inputs >> i & 1) ? blocked_ : Layout::plain;
      const ValueId now = rewriter_.value(input);
      const ValueId there = in_layout(input, wanted, old_depth_[id]);
      if (there == now) continue;
      restore.emplace_back(input, now);
      rewriter_.map_value(input, there);
    }
    const NodeId made = rewriter_.copy(id);
    depth_.push_back(old_depth_[id]);
    for (auto [value, now] : restore) rewriter_.map_value(value, now);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = i < rewriter_.to().node(made).outputs.size()
                                 ? rewriter_.to().node(made).outputs[i]
                                 : kNone;
      if (output != kNone)
        note(output, i < 32 && (chosen.outputs >> i & 1) ? blocked_ : Layout::plain);
    }
    return {};
  }

  const Graph& graph_;
  const std::vector<uint32_t>& old_depth_;
  const std::string& kind_;  // of the device
  const Layout blocked_;     // its other layout
  Rewriter rewriter_;
  const OpDef* reorder_ = nullptr;
  std::vector<Layout> layout_;   // by new value
  std::vector<uint32_t> depth_;  // by new node
  std::map<std::pair<ValueId, Layout>, ValueId> reordered_;
};

}  // namespace

Result<Graph> choose_layouts(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                             LayoutChoice& layouts, const std::string& kind) {
  LEAT_ASSIGN_OR_RETURN(const bool any, prefers_any(graph, kind));
  // Most graphs have no convolution, so they pass without a copy.
  if (!any && is_canonical(graph)) {
    layouts.of_value.assign(graph.values(), Layout::plain);
    return graph;
  }
  const std::vector<uint32_t> old_depth = depth;
  return LayoutPass(graph, old_depth, kind).run(borders, depth, layouts);
}

}  // namespace leat
