// A Rewriter for one device's part of a graph, whose types are concrete and whose nodes have
// depths.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/graph/op.h"
#include "scheduler/graph/rewrite.h"

namespace leat {

// Copies a part, and answers what passes ask of the old one.
//
// Threads: one at a time. The old graph and its depths outlive it.
class PartRewriter {
 public:
  PartRewriter(const Graph& graph, const Borders& borders, const std::vector<uint32_t>& depth)
      : graph_(graph),
        depth_(depth),
        consumers_(graph.consumers()),
        fetched_(graph.values(), false),
        awaited_(graph.nodes(), false),
        rewriter_(graph) {
    for (const ValueId fetch : borders.fetches) fetched_[fetch] = true;
    for (const NodeId target : borders.targets) awaited_[target] = true;
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      for (const NodeId before : graph.node(id).after) awaited_[before] = true;
    }
  }

  // The op of that name, if devices of a kind have a kernel for it; else null.
  const OpDef* op_for(std::string_view full_name, const std::string& kind) const {
    const OpDef* op = graph_.catalogue().find(full_name);
    return op && op->kernels.contains(kind) ? op : nullptr;
  }

  // --- of the old graph ---
  const Graph& graph() const { return graph_; }
  const std::vector<NodeId>& readers(ValueId value) const { return consumers_[value]; }
  bool is_fetched(ValueId value) const { return fetched_[value]; }
  // True if nothing refers to the node itself, neither control edges nor the caller: a pass may
  // leave it out, or compute at another place what it computes.
  bool is_movable(NodeId id) const { return !awaited_[id] && graph_.node(id).after.empty(); }
  const ValueType& type(ValueId value) const { return graph_.value(value).type; }
  NodeId producer(ValueId value) const {
    return value == kNone ? kNone : graph_.value(value).producer;
  }
  // The node that makes a value; null for an input of the part.
  const Node* made_by(ValueId value) const {
    const NodeId id = producer(value);
    return id == kNone ? nullptr : &graph_.node(id);
  }
  // The one node that reads a value, once, and that nothing else needs; kNone if there is none.
  NodeId only_reader(ValueId value) const {
    if (value == kNone || fetched_[value] || consumers_[value].size() != 1) return kNone;
    const NodeId id = consumers_[value][0];
    const auto& inputs = graph_.node(id).inputs;
    return std::count(inputs.begin(), inputs.end(), value) == 1 ? id : kNone;
  }
  // The value of a Constant; null for all others.
  const Tensor* constant(ValueId value) const {
    const Node* node = made_by(value);
    if (!node || node->op->name != "Constant" || node->attrs.size() != 1) return nullptr;
    return std::get_if<Tensor>(&node->attrs.begin()->second);
  }

  // --- of the new one ---
  ValueId value(ValueId old_value) const { return rewriter_.value(old_value); }
  Graph& to() { return rewriter_.to(); }
  NodeId copy(NodeId id) {
    new_depth_.push_back(depth_[id]);
    return rewriter_.copy(id);
  }
  // Adds a node of these new inputs in place of the old node `like`, with outputs of these types.
  NodeId add(NodeId like, const OpDef& op, std::vector<ValueId> inputs, Attrs attrs,
             const std::vector<ValueType>& outputs) {
    const NodeId made =
        rewriter_.add(op, std::move(inputs), std::move(attrs), static_cast<int>(outputs.size()));
    new_depth_.push_back(depth_[like]);
    const Node& old = graph_.node(like);
    Node& node = to().node(made);
    node.device = old.device;
    node.name = old.name;
    node.source = old.source;
    node.first_row = old.first_row;
    for (const NodeId before : old.after) {
      if (rewriter_.node(before) != kNone) node.after.push_back(rewriter_.node(before));
    }
    for (size_t i = 0; i < outputs.size(); ++i) to().value(node.outputs[i]).type = outputs[i];
    rewriter_.map_node(like, made);
    return made;
  }
  // A new value stands for an old one, and has its name.
  void replace(ValueId old_value, ValueId now) {
    to().set_value_name(now, graph_.value_name(old_value));
    rewriter_.map_value(old_value, now);
  }
  // The old value is read as this new one from now on, without a change of names.
  void map_value(ValueId old_value, ValueId now) { rewriter_.map_value(old_value, now); }
  void map_node(NodeId old_node, NodeId now) { rewriter_.map_node(old_node, now); }

  // The new graph, and its depths.
  Result<Graph> finish(Borders& borders, std::vector<uint32_t>& depth) {
    depth = std::move(new_depth_);
    return rewriter_.finish(borders);
  }

 private:
  const Graph& graph_;
  const std::vector<uint32_t>& depth_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> fetched_;  // by value
  std::vector<bool> awaited_;  // by node
  Rewriter rewriter_;
  std::vector<uint32_t> new_depth_;
};

}  // namespace leat
