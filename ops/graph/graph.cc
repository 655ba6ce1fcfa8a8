#include "ops/graph/graph.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// True if each node comes after all nodes that it depends on. Most passes leave graphs so.
bool is_in_order(const Graph& graph) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    for (ValueId input : node.inputs) {
      if (input == kNone) continue;
      const NodeId producer = graph.value(input).producer;
      if (producer != kNone && producer >= id) return false;
    }
    if (std::any_of(node.after.begin(), node.after.end(), [&](NodeId b) { return b >= id; }))
      return false;
  }
  return true;
}

// invalid_argument with a cycle of a graph without an order. waiting[n] is the number of edges into
// node n that are open. Every remaining node is on a cycle or depends on one: the walk goes
// backwards over the remaining nodes until a node repeats.
Status cycle_error(const Graph& graph, const std::vector<uint32_t>& waiting) {
  NodeId at = 0;
  while (waiting[at] == 0) ++at;
  std::vector<bool> seen(waiting.size(), false);
  std::vector<std::string> path;
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(graph.describe_node(at));
    NodeId previous = kNone;
    for (ValueId input : graph.node(at).inputs) {
      if (input == kNone) continue;
      const NodeId producer = graph.value(input).producer;
      if (producer != kNone && waiting[producer] != 0) previous = producer;
    }
    for (NodeId before : graph.node(at).after) {
      if (waiting[before] != 0) previous = before;
    }
    at = previous;
  }
  // A message of eight nodes is long enough to find the place.
  if (path.size() > 8) path.resize(8);
  return invalid_argument(
      cat("graph '", graph.name, "': expected no cycles, found one through ", join(path, " <- ")));
}

}  // namespace

// The three tables grow together: each value has a name, which may be empty.
void Graph::reserve(size_t nodes, size_t values) {
  nodes_.reserve(nodes);
  values_.reserve(values);
  value_names_.reserve(values);
}

// The node is its own source until a pass makes it a copy of another one.
NodeId Graph::add_node(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, int outputs) {
  const auto id = static_cast<NodeId>(nodes_.size());
  Node node;
  node.op = &op;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.source = id;
  for (int i = 0; i < outputs; ++i) {
    node.outputs.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back(Value{{}, id, static_cast<uint32_t>(i)});
    value_names_.emplace_back();
  }
  nodes_.push_back(std::move(node));
  return id;
}

// The name comes from a file or from a person, so the error suggests the nearest op.
Result<NodeId> Graph::add_node(std::string_view domain, std::string_view op,
                               std::vector<ValueId> inputs, Attrs attrs, int outputs) {
  const OpDef* def = catalogue_->find(domain, op);
  const std::string full = domain.empty() ? std::string(op) : cat(domain, ".", op);
  if (!def) {
    return invalid_argument(cat("op '", full,
                                "': expected one of this build's ops, there is none of that name",
                                catalogue_->suggestion(full)));
  }
  return add_node(*def, std::move(inputs), std::move(attrs), outputs);
}

// The new value has no type yet: the caller infers the node again.
ValueId Graph::ensure_output(NodeId node, int index) {
  auto& outputs = nodes_[node].outputs;
  while (static_cast<int>(outputs.size()) <= index) outputs.push_back(kNone);
  ValueId& slot = outputs[static_cast<size_t>(index)];
  if (slot == kNone) {
    slot = static_cast<ValueId>(values_.size());
    values_.push_back(Value{{}, node, static_cast<uint32_t>(index)});
    value_names_.emplace_back();
  }
  return slot;
}

// `index` counts the inputs of the graph, since no node produces the value.
ValueId Graph::add_input(std::string name, ValueType type) {
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back(Value{std::move(type), kNone, static_cast<uint32_t>(inputs_.size())});
  value_names_.push_back(std::move(name));
  inputs_.push_back(id);
  return id;
}

const std::string& Graph::value_name(ValueId id) const { return value_names_[id]; }
void Graph::set_value_name(ValueId id, std::string name) { value_names_[id] = std::move(name); }

std::string Graph::describe(ValueId id) const {
  if (id == kNone) return "(absent)";
  return value_names_[id].empty() ? "%" + std::to_string(id) : value_names_[id];
}

// A node without a name is called by the first of its outputs that has one.
// A name "%Mish 'act'" is that of the composite which the node is a part of.
std::string Graph::describe_node(NodeId id) const {
  const Node& n = nodes_[id];
  const bool is_part = n.name.starts_with('%');
  std::string name = is_part ? "" : n.name;
  for (size_t i = 0; name.empty() && i < n.outputs.size(); ++i) {
    if (n.outputs[i] != kNone) name = value_names_[n.outputs[i]];
  }
  const std::string node =
      n.op->full_name() + (name.empty() ? " #" + std::to_string(id) : " '" + name + "'");
  return is_part ? n.name.substr(1) + " (its part " + node + ")" : node;
}

// The lowest number wins if two values have one name.
std::optional<ValueId> Graph::find_value(std::string_view name) const {
  for (size_t i = 0; i < value_names_.size(); ++i) {
    if (value_names_[i] == name) return static_cast<ValueId>(i);
  }
  return std::nullopt;
}

SymbolId Graph::symbol(std::string_view name) {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i].name == name) return static_cast<SymbolId>(i);
  }
  symbols_.push_back({std::string(name), std::nullopt});
  return static_cast<SymbolId>(symbols_.size() - 1);
}

// A file may have taken the name, so the first free number from the count of symbols on is used.
SymbolId Graph::fresh_symbol() {
  const auto is_taken = [this](const std::string& name) {
    return std::any_of(symbols_.begin(), symbols_.end(),
                       [&](const auto& each) { return each.name == name; });
  };
  size_t number = symbols_.size();
  while (is_taken(cat("_", number))) ++number;
  symbols_.push_back({cat("_", number), std::nullopt});
  return static_cast<SymbolId>(symbols_.size() - 1);
}

// The forms are those of the text form: "128", "N", "2*N".
std::string Graph::dim_text(Dim dim) const {
  if (dim.is_constant()) return std::to_string(dim.factor);
  const std::string& symbol = symbols_[dim.symbol].name;
  return dim.factor == 1 ? symbol : cat(dim.factor, "*", symbol);
}

std::string Graph::shape_text(const SymbolicShape& shape) const {
  std::vector<std::string> sizes;
  for (Dim dim : shape.dims()) sizes.push_back(dim_text(dim));
  return "[" + join(sizes, ",") + "]";
}

std::string Graph::type_text(const ValueType& type) const {
  switch (type.kind) {
    case ValueKind::tensor:
      return cat(type.dtype, shape_text(type.shape));
    case ValueKind::rows:
      return cat("rows ", type.dtype, shape_text(type.shape));
    case ValueKind::resource:
      return cat("resource ", type.dtype, shape_text(type.shape));
    case ValueKind::token:
      return "token";
  }
  return "?";
}

Result<std::vector<NodeId>> Graph::topological_order() const {
  // The common case costs one pass and no queue: the numbers themselves are an order.
  if (is_in_order(*this)) {
    std::vector<NodeId> as_they_are(nodes_.size());
    std::iota(as_they_are.begin(), as_they_are.end(), NodeId{0});
    return as_they_are;
  }
  // Counts the edges into each node, then takes nodes without open edges. A node that reads a
  // producer twice counts two edges, and both go at once.
  std::vector<uint32_t> waiting(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> successors(nodes_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const auto depend = [&](NodeId before) {
      successors[before].push_back(id);
      ++waiting[id];
    };
    for (ValueId input : nodes_[id].inputs) {
      if (input != kNone && values_[input].producer != kNone) depend(values_[input].producer);
    }
    for (NodeId before : nodes_[id].after) depend(before);
  }
  // The smallest id goes first, so that the order depends on the graph alone.
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (waiting[id] == 0) ready.push(id);
  }
  std::vector<NodeId> order;
  order.reserve(nodes_.size());
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (NodeId next : successors[id]) {
      if (--waiting[next] == 0) ready.push(next);
    }
  }
  if (order.size() == nodes_.size()) return order;
  return cycle_error(*this, waiting);
}

// Nodes are visited in order, so a repeated read of one node is always the last entry.
std::vector<std::vector<NodeId>> Graph::consumers() const {
  std::vector<std::vector<NodeId>> out(values_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    for (ValueId input : nodes_[id].inputs) {
      if (input != kNone && (out[input].empty() || out[input].back() != id))
        out[input].push_back(id);
    }
  }
  return out;
}

}  // namespace leat
