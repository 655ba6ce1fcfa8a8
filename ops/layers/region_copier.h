// Copies a graph and puts other nodes in place of those that have regions. Private to this folder:
// control_flow.cc says which nodes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/validate.h"

namespace leat {

using ValueIds = std::vector<ValueId>;

// A node with regions, and what the nodes in its place inherit from it.
struct ControlNode {
  const Node& node;
  std::string subject;  // for messages
  std::string label;    // for names
  ValueIds inputs;      // in the new graph, without the captures
  ValueIds captures;
  std::string device;
  std::vector<NodeId> after;
  bool is_repeated;  // it is in a region that was copied before
};

// Every node of the new graph is inferred when it is added, so that types and known values are at
// hand for the next control node. Threads: one. The graph outlives the copier.
class RegionCopier {
 public:
  explicit RegionCopier(const Graph& from);
  virtual ~RegionCopier() = default;
  RegionCopier(const RegionCopier&) = delete;
  RegionCopier& operator=(const RegionCopier&) = delete;

  // Errors are those of expand_control_flow().
  Result<Graph> run();

 protected:
  // Adds the nodes in place of a control node, and returns the values of its outputs, at least as
  // many as it has.
  virtual Result<ValueIds> results_of(const ControlNode& of) = 0;

  Graph& to() { return to_; }
  const Graph& to() const { return to_; }
  // A region of the node; invalid_argument if it has none of that name.
  Result<const Graph*> region_of(const ControlNode& of, std::string_view name) const;
  // Copies a region whose inputs are `operands`, with the captures at their end, and returns its
  // outputs. The names of the nodes begin with `prefix`. `is_later`: the region was copied before,
  // so its random nodes draw other numbers now.
  Result<ValueIds> inlined(const ControlNode& of, const Graph& region, ValueIds operands,
                           std::string prefix, bool is_later);
  // Adds a node, on the control node's device and behind the nodes that run before it.
  Result<ValueIds> emit_n(const ControlNode& of, std::string_view op, ValueIds inputs, Attrs attrs,
                          int outputs);
  Result<ValueId> emit(const ControlNode& of, std::string_view op, ValueIds inputs,
                       Attrs attrs = {});
  Result<ValueId> constant(const ControlNode& of, Tensor value);
  // Values of one shape, one behind the other along a new axis.
  Result<ValueId> stacked(const ControlNode& of, const ValueIds& values, int64_t axis);
  // The slices of a value along an axis, whose length must be known and at least 1.
  Result<ValueIds> sliced(const ControlNode& of, ValueId value, int64_t axis);
  // Counts an iteration, or a node that a region or its control node adds: there are at most
  // kMostUnrolledNodes.
  Status count(std::string_view subject);
  // The value if it is known, else null; of a bool of one element.
  const Tensor* known_value(ValueId value) const { return inference_.constant(value); }
  std::optional<bool> known(ValueId value) const;

 private:
  struct CopiedGraph;
  Status copy_nodes(CopiedGraph& graph);
  Status copy(CopiedGraph& graph, NodeId id);
  Status replace(CopiedGraph& graph, NodeId id);
  Status finish(CopiedGraph& graph, NodeId id, const ControlNode& of, const ValueIds& results);
  Status check_in_region(const CopiedGraph& graph, NodeId id);

  const Graph& from_;
  Graph to_;
  Inference inference_;
  uint32_t next_source_;
  size_t made_ = 0;  // see count()
};

}  // namespace leat
