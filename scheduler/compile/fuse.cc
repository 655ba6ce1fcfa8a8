#include <algorithm>

#include "ops/definitions/pool.h"
#include "ops/graph/op.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// Ops that can apply an activation to what they are about to store declare this attribute.
constexpr std::string_view kActivationAttr = "leat_activation";

// True if the op can apply an activation, and the node does not have one yet.
bool takes_activation(const Node& node) {
  const auto& attrs = node.op->attributes;
  const bool declared = std::any_of(attrs.begin(), attrs.end(),
                                    [](const AttrDef& a) { return a.name == kActivationAttr; });
  // The activation would change one output only, so a node with several does not take one.
  return declared && attr_string(node.attrs, kActivationAttr).empty() && node.outputs.size() == 1;
}

class Fusion {
 public:
  Fusion(const Graph& graph, const Borders& borders, const std::vector<uint32_t>& depth)
      : graph_(graph),
        borders_(borders),
        depth_(depth),
        consumers_(graph.consumers()),
        relu_grad_(graph.catalogue().find("leat.ReluGrad")),
        rewriter_(graph),
        absorbed_(graph.nodes(), false) {}

  // Most parts have nothing to fuse, and the pass can return them as they are.
  bool finds_any() const {
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      if (activation_after(id) != kNone || mask_after(id) != kNone) return true;
    }
    return false;
  }

  Result<Graph> run(Borders& borders, std::vector<uint32_t>& depth) {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    for (NodeId id : order) {
      // The node is part of one that came before it in the order.
      if (absorbed_[id]) continue;
      if (const NodeId activation = activation_after(id); activation != kNone)
        fuse_activation(id, activation);
      else if (const NodeId mask = mask_after(id); mask != kNone)
        mask_before_pool(id, mask);
      else
        copy(id);
    }
    depth = std::move(new_depth_);
    return rewriter_.finish(borders);
  }

 private:
  NodeId copy(NodeId id) {
    new_depth_.push_back(depth_[id]);
    return rewriter_.copy(id);
  }

  // The one node that reads a node's only output, which no step fetches; kNone if there are
  // others. Control edges keep a node apart.
  NodeId only_reader(const Node& node) const {
    if (node.outputs.size() != 1 || node.outputs[0] == kNone) return kNone;
    const auto& readers = consumers_[node.outputs[0]];
    const auto& fetches = borders_.fetches;
    const bool fetched =
        std::find(fetches.begin(), fetches.end(), node.outputs[0]) != fetches.end();
    if (fetched || readers.size() != 1 || !graph_.node(readers[0]).after.empty()) return kNone;
    return readers[0];
  }

  // The node whose activation can move into `id`, or kNone.
  NodeId activation_after(NodeId id) const {
    if (!takes_activation(graph_.node(id))) return kNone;
    const NodeId reader = only_reader(graph_.node(id));
    return reader != kNone && is_op(graph_.node(reader), "Relu") ? reader : kNone;
  }

  void fuse_activation(NodeId id, NodeId activation) {
    // The copy computes what the activation would have made, so it takes over its name and its
    // readers.
    const NodeId made = copy(id);
    Node& node = rewriter_.to().node(made);
    node.attrs[std::string(kActivationAttr)] = std::string("relu");
    absorb(activation, made);
  }

  // `made` has what `id` would have.
  void absorb(NodeId id, NodeId made) {
    const ValueId result = graph_.node(id).outputs[0];
    const ValueId now = rewriter_.to().node(made).outputs[0];
    rewriter_.to().set_value_name(now, graph_.value_name(result));
    rewriter_.map_value(result, now);
    rewriter_.map_node(id, made);
    absorbed_[id] = true;
  }

  // `id`: a max-pool's gradient. The ReluGrad after it that masks by the pool's input, or kNone.
  NodeId mask_after(NodeId id) const {
    const Node& grad = graph_.node(id);
    if (!is_op(grad, "leat.MaxPoolGrad") || !grad.after.empty()) return kNone;
    const NodeId mask = only_reader(grad), pool = graph_.value(grad.inputs[1]).producer;
    if (mask == kNone || graph_.node(mask).op != relu_grad_ || pool == kNone) return kNone;
    return belong_together(graph_.node(pool), grad, graph_.node(mask)) ? mask : kNone;
  }
  bool belong_together(const Node& pool, const Node& grad, const Node& mask) const {
    const ValueId x = mask.inputs[1];
    if (mask.inputs[0] != grad.outputs[0] || pool.inputs.empty() || pool.inputs[0] != x)
      return false;
    const auto attrs = max_pool_grad_attrs(pool, graph_.value(x).type.shape);
    const auto argmax = static_cast<size_t>(argmax_output(pool));
    if (!attrs || argmax >= pool.outputs.size() || pool.outputs[argmax] != grad.inputs[1])
      return false;
    const auto equal = [](const auto& a, const auto& b) {
      return a.first == b.first && attrs_equal(a.second, b.second);
    };
    if (!std::equal(attrs->begin(), attrs->end(), grad.attrs.begin(), grad.attrs.end(), equal))
      return false;
    const auto whole = graph_.value(x).type.shape.concrete(),
               pooled = graph_.value(pool.outputs[0]).type.shape.concrete();
    return whole && pooled && pooled->elements() < whole->elements();
  }

  // ReluGrad(MaxPoolGrad(dy, argmax), x) is MaxPoolGrad(ReluGrad(dy, pooled), argmax), to the bit,
  // and masks fewer elements: the gradients that meet at an element of x are those of windows whose
  // maximum it is, so that the pool's outputs there are equal to it. If it is not above 0 both
  // give a sum of zeros, which is +0; where it is they add the same values in the same order.
  void mask_before_pool(NodeId id, NodeId mask) {
    const Node& grad = graph_.node(id);
    const Node& pool = graph_.node(graph_.value(grad.inputs[1]).producer);
    const ValueId dy = grad.inputs[0];
    const NodeId masked =
        rewriter_.add(*relu_grad_, {rewriter_.value(dy), rewriter_.value(pool.outputs[0])}, {}, 1);
    new_depth_.push_back(depth_[id]);
    Node& made = rewriter_.to().node(masked);
    made.device = graph_.node(mask).device;
    made.name = graph_.node(mask).name;
    made.source = graph_.node(mask).source;
    made.first_row = graph_.node(mask).first_row;
    rewriter_.to().value(made.outputs[0]).type = graph_.value(dy).type;
    const ValueId before = rewriter_.value(dy);
    rewriter_.map_value(dy, made.outputs[0]);
    const NodeId scattered = copy(id);
    rewriter_.map_value(dy, before);
    absorb(mask, scattered);
  }

  const Graph& graph_;
  const Borders& borders_;
  const std::vector<uint32_t>& depth_;
  const std::vector<std::vector<NodeId>> consumers_;
  const OpDef* relu_grad_;
  Rewriter rewriter_;
  std::vector<bool> absorbed_;
  std::vector<uint32_t> new_depth_;
};

}  // namespace

Result<Graph> fuse(Graph graph, Borders& borders, std::vector<uint32_t>& depth) {
  const std::vector<uint32_t> old_depth = depth;
  Fusion fusion(graph, borders, old_depth);
  if (!fusion.finds_any() && is_canonical(graph)) return graph;
  return fusion.run(borders, depth);
}

}  // namespace leat
