// The dataflow graph in memory: an arena of nodes and values that refer to each other by integers.
// Names are in side tables, for people and as the keys of state; no pass finds anything by name.
//
// Threads: a Graph is a value. One thread may change it while no other uses it; any number of
// threads may read it while none changes it.
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

struct Node {
  const OpDef* op = nullptr;     // owned by the catalogue
  std::vector<ValueId> inputs;   // kNone where an optional input is absent
  std::vector<ValueId> outputs;  // kNone where an optional output is not wanted
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

struct Value {
  ValueType type;           // filled by validate()
  NodeId producer = kNone;  // kNone: an input of the graph
  uint32_t index = 0;       // which output of the producer, or which input of the graph
};

struct Symbol {
  std::string name;              // "N"; made-up ones are "_1", "_2"
  std::optional<int64_t> bound;  // the largest size, if known
};

class Graph {
 public:
  // The catalogue must outlive the graph.
  explicit Graph(const Catalogue& catalogue) : catalogue_(&catalogue) {}

  const Catalogue& catalogue() const { return *catalogue_; }
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
  // Adds a node with `outputs` new output values. The function checks nothing: validate() does.
  NodeId add_node(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, int outputs);
  // Adds a node by the name of its op; invalid_argument with the nearest known op if there is none.
  Result<NodeId> add_node(std::string_view domain, std::string_view op, std::vector<ValueId> inputs,
                          Attrs attrs, int outputs);
  // Gives a node an optional output that it did not have; returns the (old or new) value.
  ValueId ensure_output(NodeId node, int index);

  // --- borders ---
  ValueId add_input(std::string name, ValueType type);
  const std::vector<ValueId>& inputs() const { return inputs_; }
  void add_output(ValueId value) { outputs_.push_back(value); }
  void set_outputs(std::vector<ValueId> outputs) { outputs_ = std::move(outputs); }
  const std::vector<ValueId>& outputs() const { return outputs_; }

  // --- names ---
  // The value's name; "" if it has none.
  const std::string& value_name(ValueId id) const;
  void set_value_name(ValueId id, std::string name);
  // The value's name, or its number as "%12".
  std::string describe(ValueId id) const;
  // The node for messages: "MatMul 'l2/mm'", or "MatMul #12" if it has no name.
  std::string describe_node(NodeId id) const;
  std::optional<ValueId> find_value(
      std::string_view name) const;  // linear time: use it for borders only

  // --- symbols ---
  SymbolId symbol(std::string_view name);  // the same name gives the same symbol
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
  std::vector<Value> values_;
  std::vector<std::string> value_names_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Symbol> symbols_;
};

}  // namespace leat
