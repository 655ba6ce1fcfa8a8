// The one gate. Nothing runs, is compiled or is differentiated before it: it checks every node's
// signature, infers every type with checked arithmetic, and finds the values that are known
// already.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"

namespace leat {

// One op on its own: types of outputs (and known values) from types of inputs. What Inference and
// the interpreter share.
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

// Infers a graph, whole or as it grows. Values known before anything runs are kept here.
// Threads: one. The graph must outlive it and change only by growing.
class Inference {
 public:
  explicit Inference(Graph& graph) : graph_(&graph) {}

  // Limits, names, cycles, then infer() on each node in order. Fills Value::type of every value.
  // invalid_argument, with the node as subject, for the first thing that is wrong.
  Status run();
  // One node, whose inputs are inferred.
  Status infer(NodeId id);
  // One node that was inferred and has more outputs now: those that it had keep their types, and
  // with them the symbols that others know already.
  Status infer_more(NodeId id);
  // The value, if it is known at compile time; else null. Valid until the next infer().
  const Tensor* constant(ValueId value) const;
  Graph& graph() { return *graph_; }

 private:
  Result<OpOutcome> outcome_of(NodeId id);
  void keep(const OpOutcome& outcome, const Node& node);
  Graph* graph_;
  std::vector<Tensor> constants_;
};

// Inference::run() on its own.
Status validate(Graph& graph);

// The limits of ops/graph/limits.h, of the graph and its regions, and that inputs, outputs and
// control edges refer to what exists. Inference::run() begins with it.
Status check_limits(const Graph& graph);

// The attributes with the op's defaults filled in.
Attrs with_defaults(const OpDef& op, const Attrs& attrs);

// Concrete operand types of a node. REQUIRES: the graph was validated. Symbolic sizes are an error
// (failed_precondition) naming the value.
Result<OpTypes> concrete_types(const Graph& graph, const Node& node, const Attrs& attrs);

}  // namespace leat
