// Branches that a step leaves out. A leat.Merge needs the value of one branch, and a leat.Mask its
// value only if the branch was taken. So a node whose outputs only such inputs read, on all ways,
// has nothing to compute in the other steps. It becomes its op's conditional form
// (ops/definitions/branches.h), which has the condition as one more input. This holds for the nodes
// of a branch, and as well for those of its gradient, whatever made them.
//
// The condition is a value like any other: it goes to other devices by a Send, and the order puts
// it first. Sends and Receives move the bytes of a branch in every step, and no node reads those
// that nothing has written.
#include "ops/definitions/branches.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

bool is_merge(const Node& node) { return is_op(node, "leat.Merge"); }
bool is_mask(const Node& node) { return is_op(node, "leat.Mask"); }

// A condition, and the value of it with which a branch is taken.
struct Literal {
  ValueId condition;
  bool taken;
  auto operator<=>(const Literal&) const = default;
};
// All of them must hold. Sorted.
using Literals = std::vector<Literal>;

Literals with(Literals literals, Literal one) {
  const auto at = std::lower_bound(literals.begin(), literals.end(), one);
  if (at == literals.end() || *at != one) literals.insert(at, one);
  return literals;
}

Literals common(const Literals& a, const Literals& b) {
  Literals both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

class BranchSkipper {
 public:
  BranchSkipper(Graph& graph, const Borders& borders)
      : graph_(graph), borders_(borders), needed_(graph.nodes()) {}

  Status run() {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    find_needs(order);
    // The list is fixed before nodes are added.
    for (const NodeId id : order) {
      if (!needed_[id] || needed_[id]->empty()) continue;
      const OpDef* made = conditional_form(id);
      if (made == nullptr) continue;
      const ValueId condition = all_of(*needed_[id], id);
      graph_.node(id).op = made;
      std::vector<ValueId>& inputs = graph_.node(id).inputs;
      inputs.insert(inputs.begin(), condition);
    }
    return graph_.topological_order().status();
  }

 private:
  // The conditional form of a node's op; null if the node runs in every step.
  const OpDef* conditional_form(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!may_be_conditional(*node.op) || !matches_device("cpu", node.device)) return nullptr;
    if (is_op(node, "leat.Join") || node.outputs.empty()) return nullptr;
    return graph_.catalogue().find(kWhen, node.op->full_name());
  }
  // True if a node reads no bytes: it may hand on what nothing has written.
  static bool only_hands_on(const Node& node) { return node.op->view; }

  void need(ValueId value, const Literals& literals) {
    if (value == kNone || graph_.value(value).producer == kNone) return;
    need_node(graph_.value(value).producer, literals);
  }
  // A node is needed under what all its readers have in common.
  void need_node(NodeId id, const Literals& literals) {
    std::optional<Literals>& needed = needed_[id];
    needed = needed ? common(*needed, literals) : literals;
  }

  // Goes from the readers to what they read, so that all readers of a node are known.
  void find_needs(const std::vector<NodeId>& order) {
    for (const ValueId fetch : borders_.fetches) need(fetch, {});
    for (const NodeId target : borders_.targets) need_node(target, {});
    for (size_t i = order.size(); i-- > 0;) {
      const Node& node = graph_.node(order[i]);
      const bool can_skip = conditional_form(order[i]) != nullptr || only_hands_on(node);
      if (!can_skip || !needed_[order[i]]) needed_[order[i]] = Literals();
      const Literals here = *needed_[order[i]];
      for (const NodeId before : node.after) need_node(before, here);
      for (const ValueId input : node.inputs) {
        if (!is_merge(node) && !is_mask(node)) need(input, here);
      }
      if (is_merge(node)) {
        branch(node.inputs[1], node.inputs[0], true, here, i);
        branch(node.inputs[2], node.inputs[0], false, here, i);
      } else if (is_mask(node)) {
        branch(node.inputs[0], node.inputs[1], attr_int(node.attrs, "branch", 1) != 0, here, i);
      }
    }
  }

  void branch(ValueId value, ValueId condition, bool taken, const Literals& here, size_t position) {
    last_use_.try_emplace(condition, position);
    need(condition, here);
    need(value, with(here, {condition, taken}));
  }

  // A bool that is true if all literals hold. The condition of an outer branch has its last Merge
  // behind those of the inner ones, and comes first: if it does not hold, the inner conditions may
  // be any bytes, and are not read.
  ValueId all_of(const Literals& literals, NodeId reader) {
    const auto found = conditions_.find(literals);
    if (found != conditions_.end()) return found->second;
    Literals outer = literals;
    const auto innermost =
        std::min_element(outer.begin(), outer.end(), [&](const Literal& a, const Literal& b) {
          return std::pair(last_use_.at(a.condition), a) < std::pair(last_use_.at(b.condition), b);
        });
    const Literal last = *innermost;
    outer.erase(innermost);
    ValueId made = last.condition;
    if (outer.empty()) {
      if (!last.taken) made = chosen(last.condition, no(last, reader), yes(last, reader), reader);
    } else {
      const ValueId before = all_of(outer, reader);
      if (!last.taken) made = chosen(made, no(last, reader), yes(last, reader), reader);
      made = chosen(before, made, no(last, reader), reader);
    }
    conditions_.emplace(literals, made);
    return made;
  }

  // Nodes that make a condition are where the condition is that they are made of.
  std::string device_of(ValueId condition, NodeId reader) const {
    const NodeId producer = graph_.value(condition).producer;
    return graph_.node(producer == kNone ? reader : producer).device;
  }
  ValueId add(const char* op, std::vector<ValueId> inputs, Attrs attrs, ValueId like,
              NodeId reader) {
    const NodeId made =
        graph_.add_node(*graph_.catalogue().find(op), std::move(inputs), std::move(attrs), 1);
    graph_.node(made).device = device_of(like, reader);
    const ValueId value = graph_.node(made).outputs[0];
    graph_.value(value).type = graph_.value(like).type;
    return value;
  }
  ValueId chosen(ValueId condition, ValueId a, ValueId b, NodeId reader) {
    return add("leat.Merge", {condition, a, b}, {}, a, reader);
  }
  ValueId constant(bool value, const Literal& like, NodeId reader) {
    const auto shape = graph_.value(like.condition).type.shape.concrete();
    Tensor tensor(DType::boolean, shape.value_or(Shape()));
    tensor.set(0, value ? 1 : 0);
    return add("Constant", {}, {{"value", std::move(tensor)}}, like.condition, reader);
  }
  ValueId yes(const Literal& like, NodeId reader) { return constant(true, like, reader); }
  ValueId no(const Literal& like, NodeId reader) { return constant(false, like, reader); }

  Graph& graph_;
  const Borders& borders_;
  std::vector<std::optional<Literals>> needed_;  // by node: nothing if no reader is known
  std::map<ValueId, size_t> last_use_;           // by condition: the last Merge or Mask of it
  std::map<Literals, ValueId> conditions_;
};

}  // namespace

Result<Graph> leave_branches(Graph graph, Borders& borders) {
  const OpDef* enter = graph.catalogue().find("leat.Enter");
  bool any = false;
  for (NodeId id = 0; id < graph.nodes(); ++id) any = any || graph.node(id).op == enter;
  if (!any || enter == nullptr) return graph;
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  Rewriter rewriter(graph);
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    if (node.op != enter) {
      rewriter.copy(id);
      continue;
    }
    rewriter.map_value(node.outputs[0], rewriter.value(node.inputs[0]));
    const NodeId producer = rewriter.to().value(rewriter.value(node.inputs[0])).producer;
    if (producer != kNone) rewriter.map_node(id, producer);
  }
  return rewriter.finish(borders);
}

Result<Graph> skip_branches(Graph graph, const Borders& borders) {
  bool any = false;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    any = any || is_merge(graph.node(id)) || is_mask(graph.node(id));
  }
  if (!any) return graph;
  LEAT_RETURN_IF_ERROR(BranchSkipper(graph, borders).run().while_doing("finding branches"));
  return graph;
}

}  // namespace leat
