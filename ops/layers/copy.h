// Copies a graph node by node, so that a pass can replace some of the nodes.
#pragma once

#include <vector>

#include "ops/graph/graph.h"

namespace leat {

// Begins with the name, the symbols and the inputs of `from`, which must outlive the copy.
class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  // The new value for an old one; kNone for kNone. REQUIRES: the new value exists.
  ValueId at(ValueId old) const { return old == kNone ? kNone : values_[old]; }
  std::vector<ValueId> at(const std::vector<ValueId>& old) const;
  std::vector<NodeId> nodes_at(const std::vector<NodeId>& old) const;

  // Copies an old node unchanged: attributes, names of the outputs, control edges, device, source.
  NodeId copy(NodeId old);
  // Sets the new value or node for an old one.
  void put(ValueId old, ValueId now) { values_[old] = now; }
  void put_node(NodeId old, NodeId now) { nodes_[old] = now; }

  // Sets the outputs and returns the finished graph. It sets the source of every node that is not
  // random to its index in the text form, because only random nodes use their source as a key.
  Graph finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
};

}  // namespace leat
