#include "ops/layers/copy.h"

#include "ops/graph/op.h"

namespace leat {
namespace {

// Numbers the nodes in the order in which the text form writes them: the nodes of a region follow
// the node that has it.
void number_sources(Graph& graph, uint32_t& next) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    Node& node = graph.node(id);
    const uint32_t index = next++;
    if (!node.op->random) node.source = index;
    for (const auto& [name, attr] : Attrs(node.attrs)) {
      const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr);
      if (region == nullptr) continue;
      auto own = std::make_shared<Graph>(**region);  // the old graph keeps its own
      number_sources(*own, next);
      node.attrs[name] = std::move(own);
    }
  }
}

}  // namespace

GraphCopy::GraphCopy(const Graph& from)
    : from_(from),
      to_(from.catalogue()),
      values_(from.values(), kNone),
      nodes_(from.nodes(), kNone) {
  to_.name = from.name;
  // The ids must be equal, or types would not agree. symbol() would search all symbols each time.
  for (SymbolId id = 0; id < from.symbols(); ++id)
    to_.symbol_info(to_.fresh_symbol()) = from.symbol_info(id);
  for (const ValueId input : from.inputs()) {
    values_[input] = to_.add_input(from.value_name(input), from.value(input).type);
  }
}

std::vector<ValueId> GraphCopy::at(const std::vector<ValueId>& old) const {
  std::vector<ValueId> now;
  for (const ValueId value : old) now.push_back(at(value));
  return now;
}

// Nodes that the pass left out are dropped: nothing can run after them.
std::vector<NodeId> GraphCopy::nodes_at(const std::vector<NodeId>& old) const {
  std::vector<NodeId> now;
  for (const NodeId node : old) {
    if (nodes_[node] != kNone) now.push_back(nodes_[node]);
  }
  return now;
}

NodeId GraphCopy::copy(NodeId old) {
  const Node& node = from_.node(old);
  const NodeId id = to_.add_node(*node.op, at(node.inputs), node.attrs, 0);
  // An output that was not wanted stays kNone, at its place, because kernels know outputs by index.
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const ValueId now = to_.ensure_output(id, static_cast<int>(i));
    to_.set_value_name(now, from_.value_name(node.outputs[i]));
    to_.value(now).type = from_.value(node.outputs[i]).type;
    values_[node.outputs[i]] = now;
  }
  Node& made = to_.node(id);
  made.outputs.resize(node.outputs.size(), kNone);
  made.after = nodes_at(node.after);
  made.device = node.device;
  made.name = node.name;
  made.source = node.source;
  made.first_row = node.first_row;
  nodes_[old] = id;
  return id;
}

// Sources are numbered at the end, when the order of all nodes is known.
Graph GraphCopy::finish() && {
  to_.set_outputs(at(from_.outputs()));
  uint32_t next = 0;
  number_sources(to_, next);
  return std::move(to_);
}

}  // namespace leat
