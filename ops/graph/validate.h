// Validation. Every graph passes it before anything runs, compiles or differentiates the graph: it
// checks every node's signature, infers every type with checked arithmetic, and computes the values
// that are known at compile time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"

namespace leat {

// One op on its own: inference maps the types of its inputs to the types (and known values) of its
// outputs. Inference and the interpreter share this. The pointers need only live until infer_op()
// returns.
struct OpCall {
  const OpDef* op = nullptr;
  const Attrs* attrs = nullptr;  // as written
  std::string subject;           // for messages
  // Null where absent. The last one is present: absent inputs at the end are left out.
  std::vector<const ValueType*> inputs;
  // As many as inputs; null where unknown.
  std::vector<const Tensor*> constants;
  // As many as inputs, or none: the elements of inputs that are no constants.
  std::vector<SizeValues> sizes;
  std::vector<bool> wanted;  // outputs
  // Makes a symbol that no other size has, and shows a shape in messages. Both must be set.
  std::function<SymbolId()> fresh_symbol;
  std::function<std::string(const SymbolicShape&)> shape_text;
};
// As many types and constants as OpCall::wanted has entries; those of outputs that are not wanted
// have no meaning.
struct OpOutcome {
  std::vector<ValueType> outputs;
  std::vector<Tensor> constants;  // invalid where unknown
  std::vector<SizeValues> sizes;  // empty where unknown
};
// Checks the signature (number, kinds and dtypes of the inputs, number of outputs, names and kinds
// of attributes), then applies the op's rule, and checks the sizes that it found. It runs no
// kernel: Inference folds constants afterwards. invalid_argument with the subject; internal_error
// if the op has no rule or the rule left out a wanted output.
Result<OpOutcome> infer_op(const OpCall& call);

class SizeArithmetic;

// Infers a graph, whole or while it grows. It also keeps the values that are known at compile time.
// Threads: one. The graph must outlive this object and may change only by growing.
class Inference {
 public:
  explicit Inference(Graph& graph);
  ~Inference();

  // Checks limits, names and cycles, then infers each node in order. It sets Value::type of every
  // value. The first error is invalid_argument, with the node as its subject.
  Status run();
  // Infers one node, whose inputs are inferred. A pure op whose inputs are all known is computed at
  // once, with its CPU kernel, if its outputs have at most limits::kValueInference elements; if
  // that fails, its values are just not known. After an error the types of the outputs are as
  // before.
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
  std::vector<SizeValues> sizes_;
  std::unique_ptr<SizeArithmetic> arithmetic_;
};

// Runs Inference::run() on the graph. The types of the graph's inputs are taken as they are. After
// an error, some values have types and others have none.
Status validate(Graph& graph);

// Checks the limits of ops/graph/limits.h for the graph and its regions, that names are UTF-8, and
// that inputs, outputs and control edges refer to existing nodes and values. Every other function
// may rely on references that exist: Inference::run() begins with it. invalid_argument names the
// limit and the number received.
Status check_limits(const Graph& graph);

// The attributes with the op's defaults filled in. If none is missing, the result shares the map of
// `attrs`.
Attrs with_defaults(const OpDef& op, const Attrs& attrs);

// The concrete operand types of a node, in plain layout. `attrs` are those with defaults; the
// result points to them, so they must outlive it. REQUIRES: the graph was validated. A symbolic
// size is an error (failed_precondition) that names the value.
Result<OpTypes> concrete_types(const Graph& graph, const Node& node, const Attrs& attrs);

}  // namespace leat
