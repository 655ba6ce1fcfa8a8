// Validation. Every graph passes it before anything runs, compiles or differentiates the graph: it
// checks every node's signature, infers every type with checked arithmetic, and computes the values
// that are known at compile time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"

namespace leat {

// One op on its own: inference maps the types of its inputs to the types (and known values) of its
// outputs. Inference and the interpreter share this.
struct OpCall {
  const OpDef* op = nullptr;
  const Attrs* attrs = nullptr;          // as written
  std::string subject;                   // for messages
  std::vector<const ValueType*> inputs;  // null where absent
  std::vector<const Tensor*> constants;  // null where unknown
  std::vector<bool> wanted;              // outputs
  std::function<SymbolId()> fresh_symbol;
  std::function<std::string(const SymbolicShape&)> shape_text;
};
struct OpOutcome {
  std::vector<ValueType> outputs;
  std::vector<Tensor> constants;  // invalid where unknown
};
Result<OpOutcome> infer_op(const OpCall& call);

// Infers a graph, whole or while it grows. It also keeps the values that are known at compile time.
// Threads: one. The graph must outlive this object and may change only by growing.
class Inference {
 public:
  explicit Inference(Graph& graph) : graph_(&graph) {}

  // Checks limits, names and cycles, then infers each node in order. It sets Value::type of every
  // value. The first error is invalid_argument, with the node as its subject.
  Status run();
  // Infers one node, whose inputs are inferred.
  Status infer(NodeId id);
  // Infers a node again after it gained outputs. The outputs that it had before keep their types,
  // and with them the symbols that other values refer to.
  Status infer_more(NodeId id);
  // The value if it is known at compile time; else null. The pointer is valid until the next
  // infer().
  const Tensor* constant(ValueId value) const;
  Graph& graph() { return *graph_; }

 private:
  Result<OpOutcome> outcome_of(NodeId id);
  void keep(const OpOutcome& outcome, const Node& node);
  Graph* graph_;
  std::vector<Tensor> constants_;
};

// Runs Inference::run() on the graph.
Status validate(Graph& graph);

// Checks the limits of ops/graph/limits.h for the graph and its regions, and that inputs, outputs
// and control edges refer to existing nodes and values. Inference::run() begins with it.
Status check_limits(const Graph& graph);

// The attributes with the op's defaults filled in.
Attrs with_defaults(const OpDef& op, const Attrs& attrs);

// The concrete operand types of a node. REQUIRES: the graph was validated. A symbolic size is an
// error (failed_precondition) that names the value.
Result<OpTypes> concrete_types(const Graph& graph, const Node& node, const Attrs& attrs);

}  // namespace leat
