// Copies a graph node by node, so that a pass can replace some of the nodes.
//
//   GraphCopy copy(graph);
//   for (const NodeId id : order) {           // a topological order
//     if (!is_dropout(graph.node(id))) { copy.copy(id); continue; }
//     copy.put(graph.node(id).outputs[0], copy.at(graph.node(id).inputs[0]));   // left out
//   }
//   return std::move(copy).finish();
#pragma once

#include <vector>

#include "ops/graph/graph.h"

namespace leat {

// Begins with the name, the symbols and the inputs of `from`, which must outlive the copy. Symbols
// keep their ids, so that types can be copied; nodes and values get new ids. The copied values keep
// their types, and the caller validates the result. Threads: one.
class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  // The new value for an old one; kNone for kNone. REQUIRES: the new value exists.
  ValueId at(ValueId old) const { return old == kNone ? kNone : values_[old]; }
  // The same for each of a list.
  std::vector<ValueId> at(const std::vector<ValueId>& old) const;
  // The new nodes for old ones. Old nodes without a new one are left out of the list, since nothing
  // can run after them.
  std::vector<NodeId> nodes_at(const std::vector<NodeId>& old) const;

  // Copies an old node unchanged: attributes, names of the outputs, control edges, device, source,
  // first_row. Outputs that were not wanted keep their places. REQUIRES: the inputs and the sources
  // of control edges are copied or replaced already.
  NodeId copy(NodeId old);
  // Sets the new value or node for an old one. Readers that are copied from then on read the new
  // value, and nodes that ran after the old node run after the new one.
  void put(ValueId old, ValueId now) { values_[old] = now; }
  void put_node(NodeId old, NodeId now) { nodes_[old] = now; }

  // Sets the outputs and returns the finished graph. It sets the source of every node that is not
  // random to its index in the text form, in which the nodes of a region follow the node that has
  // it. Random nodes keep theirs, because they use it as a key. REQUIRES: each output of the old
  // graph has a new value.
  Graph finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
};

}  // namespace leat
