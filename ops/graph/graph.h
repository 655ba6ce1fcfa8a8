// The dataflow graph in memory: an arena of nodes and values that refer to each other by integers.
// Names are in side tables, for people and as the keys of state; no pass finds anything by name.
//
// Threads: a Graph is a value. One thread may change it while no other uses it; any number of
// threads may read it while none changes it. A copy has ids, nodes and tables of its own; it shares
// the catalogue, the attributes (until one is written to), constants and regions.
//
//   Graph graph(catalogue);
//   const ValueId x = graph.add_input("x", {ValueKind::tensor, DType::f32, Shape{2, 3}});
//   LEAT_ASSIGN_OR_RETURN(const NodeId relu, graph.add_node("", "Relu", {x}, {}, 1));
//   graph.add_output(graph.node(relu).outputs[0]);
//   LEAT_RETURN_IF_ERROR(validate(graph));   // ops/graph/validate.h: infers all types
//
// GraphBuilder (ops/graph/builder.h) writes graphs with less text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/attrs.h"
#include "ops/graph/types.h"

namespace leat {

class Catalogue;
struct OpDef;

// One use of an op. The lists follow the op's signature; operands of a variadic input are at the
// end of `inputs`.
struct Node {
  const OpDef* op = nullptr;     // owned by the catalogue
  std::vector<ValueId> inputs;   // kNone where an optional input is absent
  std::vector<ValueId> outputs;  // kNone where an optional output is not wanted
  // As written: defaults of the op are not filled in (see with_defaults()).
  Attrs attrs;
  std::vector<NodeId> after;  // control edges: these nodes run first
  std::string device;         // placement constraint, "job:worker/task:1/cpu:0"; empty: anywhere
  std::string name;           // for people; may be empty
  // The node's index in the source graph. Random ops key their numbers with it, the seed, the step
  // and the element's index in the global tensor. Copies of a node keep it.
  uint32_t source = kNone;
  // The first row of this copy in the global tensor (dimension 0), when a strategy split the node.
  int64_t first_row = 0;
};

// An input of the graph, or one output of a node. It has one producer and any number of readers.
struct Value {
  ValueType type;           // filled by validate()
  NodeId producer = kNone;  // kNone: an input of the graph
  uint32_t index = 0;       // which output of the producer, or which input of the graph
};

// A size that the graph leaves open, such as the batch.
struct Symbol {
  std::string name;              // "N"; made-up ones are "_1", "_2"
  std::optional<int64_t> bound;  // the largest size, if known
};

// The arena. Nodes and values are added and never removed: a pass that removes some builds a new
// graph (scheduler/graph/rewrite.h, ops/layers/copy.h). Nothing here checks types or limits; ids
// must exist. A reference to a node or a value is valid until the next one is added.
class Graph {
 public:
  // The catalogue must outlive the graph.
  explicit Graph(const Catalogue& catalogue) : catalogue_(&catalogue) {}

  const Catalogue& catalogue() const { return *catalogue_; }
  // For people, and in error messages.
  std::string name = "graph";

  // --- nodes and values ---
  size_t nodes() const { return nodes_.size(); }
  size_t values() const { return values_.size(); }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Node& node(NodeId id) { return nodes_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  Value& value(ValueId id) { return values_[id]; }

  // Reserves room for this many nodes and values in all.
  void reserve(size_t nodes, size_t values);
  // Adds a node with `outputs` new output values, without names and types. Its `source` is its own
  // id. The function checks nothing: validate() does. `op` belongs to the graph's catalogue.
  NodeId add_node(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, int outputs);
  // Adds a node by the name of its op; invalid_argument with the nearest known op if there is none.
  Result<NodeId> add_node(std::string_view domain, std::string_view op, std::vector<ValueId> inputs,
                          Attrs attrs, int outputs);
  // Gives a node an optional output that it did not have; returns the (old or new) value. A new one
  // has no type: Inference::infer_more() finds it. Outputs before `index` that the node lacks are
  // kNone.
  ValueId ensure_output(NodeId node, int index);

  // --- borders ---
  // The inputs and outputs are in the order in which they are added, which is that of files and of
  // feeds. An input's type is given, and inference does not change it; a value may be an output
  // several times, and an input may be an output.
  ValueId add_input(std::string name, ValueType type);
  const std::vector<ValueId>& inputs() const { return inputs_; }
  void add_output(ValueId value) { outputs_.push_back(value); }
  void set_outputs(std::vector<ValueId> outputs) { outputs_ = std::move(outputs); }
  const std::vector<ValueId>& outputs() const { return outputs_; }

  // --- names ---
  // The value's name; "" if it has none. The reference is valid until a value is added. Names need
  // not be unique here; the text form refuses two values of one name.
  const std::string& value_name(ValueId id) const;
  void set_value_name(ValueId id, std::string name);
  // The value's name, or its number as "%12".
  std::string describe(ValueId id) const;
  // The node for messages: "MatMul 'l2/mm'", or "MatMul #12" if it has no name.
  std::string describe_node(NodeId id) const;
  // The value of that name with the lowest id; nothing if there is none. It takes linear time: use
  // it for borders only.
  std::optional<ValueId> find_value(std::string_view name) const;

  // --- symbols ---
  // The same name gives the same symbol. The search takes linear time.
  SymbolId symbol(std::string_view name);
  // A symbol that no size has yet, with a made-up name.
  SymbolId fresh_symbol();
  const Symbol& symbol_info(SymbolId id) const { return symbols_[id]; }
  Symbol& symbol_info(SymbolId id) { return symbols_[id]; }
  size_t symbols() const { return symbols_.size(); }
  std::string dim_text(Dim dim) const;                       // "128", "N", "2*N"
  std::string shape_text(const SymbolicShape& shape) const;  // "[N,10]"
  std::string type_text(const ValueType& type) const;        // "float[N,10]"

  // --- orders ---
  // The nodes in an order in which each follows its producers and the sources of its control edges;
  // ties are in the order of ids. The order depends on the graph alone. If there is a cycle, the
  // error is invalid_argument and names it.
  Result<std::vector<NodeId>> topological_order() const;
  // consumers()[v] = nodes that read v, ascending, each once.
  std::vector<std::vector<NodeId>> consumers() const;

 private:
  const Catalogue* catalogue_;
  std::vector<Node> nodes_;
  // These two tables grow together: each value has a name, which may be empty.
  std::vector<Value> values_;
  std::vector<std::string> value_names_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Symbol> symbols_;
};

}  // namespace leat
