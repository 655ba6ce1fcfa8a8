// The tool with which passes change a graph: they copy it, node by node, into a new one.
#pragma once

#include <map>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

// The values and nodes of a graph that its caller named. Passes keep them up to date while they
// rewrite the graph.
struct Borders {
  std::vector<ValueId> feeds;  // inputs of the graph, in the caller's order
  std::vector<ValueId> fetches;
  std::vector<NodeId> targets;  // nodes to run for their effect
};

// True if a copy by a Rewriter would give every node and value the id that it has. A pass that
// changes nothing may then return the graph itself.
bool is_canonical(const Graph& graph);

// Copies a graph into a fresh one. The pass goes through the nodes in an order in which producers
// come first, and for each of them either copies it or maps its outputs to values that replace
// them.
//
// Threads: one at a time. The old graph outlives the rewriter.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);
  // Takes the old graph apart as it goes: a copy moves everything out of its node but the outputs.
  // A pass that needs a node that it has copied looks at the copy in to().
  explicit Rewriter(Graph&& from);
  // The new graph gets only these of the old one's inputs. No copied node may read another one.
  Rewriter(const Graph& from, const std::vector<ValueId>& inputs);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }
  const Graph& to() const { return to_; }

  // Copies a node with its types. Its inputs become the values that they are mapped to.
  NodeId copy(NodeId id);
  // Adds a node to the new graph. Its values have no types until the next inference.
  NodeId add(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, int outputs);
  // Nodes that are copied from now on read `new_value`, of the new graph, for `old_value`.
  void map_value(ValueId old_value, ValueId new_value) { values_[old_value] = new_value; }
  void map_node(NodeId old_node, NodeId new_node) { nodes_[old_node] = new_node; }
  ValueId value(ValueId old_value) const { return old_value == kNone ? kNone : values_[old_value]; }
  NodeId node(NodeId old_node) const { return nodes_[old_node]; }
  // Returns the new graph and changes the borders to its ids. internal error if a border has no
  // counterpart there.
  Result<Graph> finish(Borders& borders);

 private:
  const Graph& from_;
  Graph* spare_ = nullptr;  // from_, if its nodes may be moved from
  Graph to_;
  std::vector<ValueId> values_;  // by old value: the new one
  std::vector<NodeId> nodes_;    // by old node: the new one
};

}  // namespace leat
