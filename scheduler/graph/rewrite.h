// How passes change a graph: by copying it, node by node, into a new one.
#pragma once

#include <map>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

// What a caller of a graph holds on to while passes rewrite it.
struct Borders {
  std::vector<ValueId> feeds;  // inputs of the graph, in the caller's order
  std::vector<ValueId> fetches;
  std::vector<NodeId> targets;  // nodes to run for their effect
};

// Would a copy of the graph be the graph itself, with every id? So passes that change nothing need
// none.
bool is_canonical(const Graph& graph);

// Copies `from` into a fresh graph, in an order in which producers come first. The pass decides for
// each node: copy it, or say what replaces its outputs.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);
  // For a graph that nobody wants afterwards: copies take over what a node has, but for its
  // outputs. A pass that looks back at nodes looks at those of to().
  explicit Rewriter(Graph&& from);
  // Only those inputs; nothing that is copied may read another one.
  Rewriter(const Graph& from, const std::vector<ValueId>& inputs);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }
  const Graph& to() const { return to_; }

  // Copies a node; its inputs are what they were mapped to. Types are copied too.
  NodeId copy(NodeId id);
  // Adds a node to the new graph. Its values have no types until the next inference.
  NodeId add(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, int outputs);
  // From now on, readers of `old_value` read `new_value` (of the new graph).
  void map_value(ValueId old_value, ValueId new_value) { values_[old_value] = new_value; }
  void map_node(NodeId old_node, NodeId new_node) { nodes_[old_node] = new_node; }
  ValueId value(ValueId old_value) const { return old_value == kNone ? kNone : values_[old_value]; }
  NodeId node(NodeId old_node) const { return nodes_[old_node]; }
  // The new graph, and the borders as they are called there. A border that was dropped is an
  // internal error.
  Result<Graph> finish(Borders& borders);

 private:
  const Graph& from_;
  Graph* spare_ = nullptr;  // from_, if its nodes may be taken apart
  Graph to_;
  std::vector<ValueId> values_;  // old -> new
  std::vector<NodeId> nodes_;
};

}  // namespace leat
