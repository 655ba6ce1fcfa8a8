#include "daemon/session/graph_version.h"

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

bool same_attrs(const Attrs& a, const Attrs& b);

// Regions are compared by what they hold, not by address.
// Equal sizes and an extension that adds nothing make two graphs equal.
bool same_graph(const Graph& a, const Graph& b) {
  return a.nodes() == b.nodes() && a.values() == b.values() && a.outputs() == b.outputs() &&
         a.inputs().size() == b.inputs().size() && check_appends(a, b).ok();
}

bool same_attrs(const Attrs& a, const Attrs& b) {
  if (a.size() != b.size()) return false;
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
    if (i->first != j->first) return false;
    const auto* region = std::get_if<std::shared_ptr<Graph>>(&i->second);
    const auto* other = std::get_if<std::shared_ptr<Graph>>(&j->second);
    if (region && other && *region && *other) {
      // A region is a graph of its own, with nodes of its own. Shared ones need no look.
      if (*region != *other && !same_graph(**region, **other)) return false;
    } else if (!attrs_equal(i->second, j->second)) {
      return false;
    }
  }
  return true;
}

// The first field that differs, or "".
// The place in the source graph counts, too: random numbers depend on it.
std::string changed(const Node& a, const Node& b) {
  if (a.op->full_name() != b.op->full_name()) return "op";
  if (a.inputs != b.inputs) return "inputs";
  if (a.outputs != b.outputs) return "outputs";
  if (!same_attrs(a.attrs, b.attrs)) return "attributes";
  if (a.after != b.after) return "control edges";
  if (a.device != b.device) return "device";
  if (a.name != b.name) return "name";
  if (a.source != b.source || a.first_row != b.first_row) return "place in the source graph";
  return "";
}

std::string input_text(const Graph& graph, ValueId id) {
  return cat(graph.type_text(graph.value(id).type), " ", graph.describe(id));
}

}  // namespace

Status check_appends(const Graph& old, const Graph& next) {
  if (next.nodes() < old.nodes() || next.values() < old.values() ||
      next.inputs().size() < old.inputs().size()) {
    return invalid_argument(cat("expected to keep the ", old.nodes(), " nodes, ", old.values(),
                                " values and ", old.inputs().size(),
                                " inputs that there are, received ", next.nodes(), ", ",
                                next.values(), " and ", next.inputs().size()));
  }
  for (NodeId id = 0; id < old.nodes(); ++id) {
    const std::string what = changed(old.node(id), next.node(id));
    if (what.empty()) continue;
    return invalid_argument(cat(old.describe_node(id), ": expected to stay as it is, received ",
                                next.describe_node(id), " at its place with another ", what));
  }
  for (ValueId id = 0; id < old.values(); ++id) {
    const Value &a = old.value(id), &b = next.value(id);
    const std::string& name = old.value_name(id);
    // A value that had no name may get one, so only an old name must stay.
    const bool renamed = !name.empty() && name != next.value_name(id);
    if (a.producer != b.producer || a.index != b.index || renamed)
      return invalid_argument(cat("value '", old.describe(id),
                                  "': expected to stay as it is, received '", next.describe(id),
                                  "' at its place"));
    // Types of other values follow from these and from the nodes, so they need no comparison.
    if (a.producer == kNone && input_text(old, id) != input_text(next, id)) {
      return invalid_argument(cat("input '", old.describe(id), "': expected to stay ",
                                  input_text(old, id), ", received ", input_text(next, id)));
    }
  }
  return {};
}

Result<Graph> with_input_ids(const Graph& graph, std::span<const ValueId> ids) {
  if (ids.size() != graph.inputs().size()) {
    return invalid_argument(
        cat("ids of inputs: expected ", graph.inputs().size(), ", received ", ids.size()));
  }
  Graph out(graph.catalogue());
  out.name = graph.name;
  for (SymbolId id = 0; id < graph.symbols(); ++id) {
    out.symbol_info(out.fresh_symbol()) = graph.symbol_info(id);
  }
  // By value of `graph`: its id in `out`, once it is there.
  std::vector<ValueId> moved(graph.values(), kNone);
  size_t added = 0;
  // Adds the inputs whose turn it is: an input gets the next free id exactly when that is the id
  // that it should have.
  const auto add_inputs = [&] {
    for (; added < ids.size() && ids[added] == out.values(); ++added) {
      const ValueId input = graph.inputs()[added];
      moved[input] = out.add_input(graph.value_name(input), graph.value(input).type);
    }
  };
  add_inputs();
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input == kNone ? kNone : moved[input]);
      if (input != kNone && inputs.back() == kNone) {
        return invalid_argument(cat("ids of inputs: ", graph.describe_node(id), " reads '",
                                    graph.describe(input), "' before it is there"));
      }
    }
    // Without outputs at first: they are added one by one, since an input may stand between two of
    // them.
    out.add_node(*node.op, std::move(inputs), node.attrs, 0);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const ValueId made = out.ensure_output(id, static_cast<int>(i));
      moved[node.outputs[i]] = made;
      out.set_value_name(made, graph.value_name(node.outputs[i]));
      add_inputs();
    }
    Node& copy = out.node(id);
    // An output without a value has no id, but the number of outputs must stay.
    copy.outputs.resize(node.outputs.size(), kNone);
    copy.after = node.after;
    copy.device = node.device;
    copy.name = node.name;
    copy.source = node.source;
    copy.first_row = node.first_row;
  }
  // An id that was never the next one: they do not ascend, or one is beyond the last value.
  if (added < ids.size()) {
    return invalid_argument(
        cat("ids of inputs: expected ascending ids of values, received ", join(ids, ",")));
  }
  for (const ValueId output : graph.outputs()) out.add_output(moved[output]);
  return out;
}

}  // namespace leat
