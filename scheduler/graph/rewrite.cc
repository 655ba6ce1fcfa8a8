#include "scheduler/graph/rewrite.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {

// Values are numbered as a Rewriter makes them: inputs first, then outputs node by node.
bool is_canonical(const Graph& graph) {
  ValueId next = 0;
  for (ValueId input : graph.inputs()) {
    if (input != next++) return false;
  }
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    const auto waits = [&](NodeId before) { return before != kNone && before >= id; };
    // A copy adds nodes in topological order. This is the order of ids only if each node follows
    // those that it waits for.
    if (std::any_of(node.after.begin(), node.after.end(), waits)) return false;
    for (ValueId input : node.inputs) {
      if (input != kNone && waits(graph.value(input).producer)) return false;
    }
    // A copy ends the list of outputs with the last one that is there.
    if (!node.outputs.empty() && node.outputs.back() == kNone) return false;
    for (ValueId output : node.outputs) {
      if (output != kNone && output != next++) return false;
    }
  }
  return next == graph.values();
}

Rewriter::Rewriter(const Graph& from) : Rewriter(from, from.inputs()) {}
Rewriter::Rewriter(Graph&& from) : Rewriter(from, from.inputs()) { spare_ = &from; }

Rewriter::Rewriter(const Graph& from, const std::vector<ValueId>& inputs)
    : from_(from),
      to_(from.catalogue()),
      values_(from.values(), kNone),
      nodes_(from.nodes(), kNone) {
  to_.name = from.name;
  to_.reserve(from.nodes(), from.values());
  // The same ids: symbol() would look through all of them each time.
  for (SymbolId s = 0; s < from.symbols(); ++s)
    to_.symbol_info(to_.fresh_symbol()) = from.symbol_info(s);
  for (ValueId input : inputs) {
    values_[input] = to_.add_input(from.value_name(input), from.value(input).type);
  }
}

// With a spare graph the inputs and the attributes of the old node move into the copy. Its outputs
// stay: they say which new value stands for which old one.
NodeId Rewriter::copy(NodeId id) {
  const Node& old = from_.node(id);
  Node* const spare = spare_ ? &spare_->node(id) : nullptr;
  std::vector<ValueId> inputs = spare ? std::move(spare->inputs) : old.inputs;
  for (ValueId& input : inputs) input = value(input);
  const NodeId copy =
      add(*old.op, std::move(inputs), spare ? std::move(spare->attrs) : old.attrs, 0);
  for (size_t i = 0; i < old.outputs.size(); ++i) {
    if (old.outputs[i] == kNone) continue;
    const ValueId output = to_.ensure_output(copy, static_cast<int>(i));
    to_.value(output).type = from_.value(old.outputs[i]).type;
    to_.set_value_name(output, from_.value_name(old.outputs[i]));
    values_[old.outputs[i]] = output;
  }
  Node& made = to_.node(copy);
  made.device = spare ? std::move(spare->device) : old.device;
  made.name = spare ? std::move(spare->name) : old.name;
  made.source = old.source;
  made.first_row = old.first_row;
  // A node that was left out, or replaced without map_node(), leaves no control edge behind.
  for (NodeId before : old.after) {
    if (nodes_[before] != kNone) made.after.push_back(nodes_[before]);
  }
  nodes_[id] = copy;
  return copy;
}

NodeId Rewriter::add(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, int outputs) {
  return to_.add_node(op, std::move(inputs), std::move(attrs), outputs);
}

Result<Graph> Rewriter::finish(Borders& borders) {
  // A border that no new value stands for is an error of the pass, not of the caller's graph.
  const auto renamed = [&](std::vector<ValueId>& list, const char* what) -> Status {
    for (ValueId& v : list) {
      const ValueId now = value(v);
      if (now == kNone)
        return internal_error(cat(what, " '", from_.describe(v), "' was lost in a pass"));
      v = now;
    }
    return {};
  };
  LEAT_RETURN_IF_ERROR(renamed(borders.feeds, "feed"));
  LEAT_RETURN_IF_ERROR(renamed(borders.fetches, "fetch"));
  for (NodeId& target : borders.targets) {
    if (nodes_[target] == kNone)
      return internal_error(cat("target ", from_.describe_node(target), " was lost in a pass"));
    target = nodes_[target];
  }
  // Outputs of the graph that the pass has removed are left out: nothing runs for their sake.
  std::vector<ValueId> outputs;
  for (ValueId output : from_.outputs()) {
    if (value(output) != kNone) outputs.push_back(value(output));
  }
  to_.set_outputs(std::move(outputs));
  return std::move(to_);
}

}  // namespace leat
