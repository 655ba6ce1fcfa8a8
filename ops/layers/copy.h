// Copies a graph node by node, so that a pass can put something else in the place of some.
#pragma once

#include <vector>

#include "ops/graph/graph.h"

namespace leat {

// Begins with the name, the symbols and the inputs of `from`, which must outlive it.
class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  // The new value of an old one; kNone for kNone. REQUIRES: it was made.
  ValueId at(ValueId old) const { return old == kNone ? kNone : values_[old]; }
  std::vector<ValueId> at(const std::vector<ValueId>& old) const;
  std::vector<NodeId> nodes_at(const std::vector<NodeId>& old) const;

  // The old node as it is: attributes, names of the outputs, control edges, device, source.
  NodeId copy(NodeId old);
  // What stands for an old value or node.
  void put(ValueId old, ValueId now) { values_[old] = now; }
  void put_node(NodeId old, NodeId now) { nodes_[old] = now; }

  // Sets the outputs, and the source of every node that is not random to its index in the text
  // form: only random nodes are keyed by it. The copy is finished.
  Graph finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
};

}  // namespace leat
