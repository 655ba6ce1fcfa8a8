#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "ops/definitions/element_program.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/part_rewriter.h"

namespace leat {
namespace {

constexpr size_t kMostVisited = 2000;     // nodes that are looked at for one that may join a group
constexpr size_t kMostVisits = 20000000;  // in all

// Nodes that one leat.Elementwise may compute, in topological order.
struct Group {
  std::vector<NodeId> members;
  SymbolicShape shape;  // of all results
  uint32_t depth = 0;
  bool written = false;
  uint32_t first = 0, last = 0;  // places of its members in the order
};

// Values of a group in the order in which a program numbers them.
struct Numbered {
  std::vector<ValueId> inputs;   // values of the old graph
  std::vector<ValueId> results;  // those that others need
};

class ElementwiseFusion {
 public:
  ElementwiseFusion(const Graph& graph, const Borders& borders, const std::vector<uint32_t>& depth,
                    const std::string& kind)
      : graph_(graph),
        depth_(depth),
        rewriter_(graph, borders, depth),
        fused_(rewriter_.op_for("leat.Elementwise", kind)),
        place_(graph.nodes(), 0),
        written_(graph.nodes(), false),
        group_of_(graph.nodes(), kNone),
        seen_(graph.nodes(), 0) {}

  // Finds the groups; false if there are none.
  Result<bool> find() {
    if (!fused_) return false;
    LEAT_ASSIGN_OR_RETURN(order_, graph_.topological_order());
    find_written();
    bool any = false;
    for (uint32_t place = 0; place < order_.size(); ++place) {
      const NodeId id = order_[place];
      place_[id] = place;
      if (!fits(id)) continue;
      if (join(id)) {
        any = true;
        continue;
      }
      group_of_[id] = static_cast<uint32_t>(groups_.size());
      groups_.push_back({{id}, shape_of(id), depth_[id], written_[id], place, place});
    }
    // A group of one node has nothing to fuse: its node stays outside of groups.
    for (const Group& group : groups_) {
      if (group.members.size() == 1) group_of_[group.members[0]] = kNone;
    }
    return any;
  }

  Result<Graph> run(Borders& borders, std::vector<uint32_t>& depth) {
    for (const uint32_t unit : units_in_order()) {
      if (unit < graph_.nodes())
        rewriter_.copy(unit);
      else
        replace(groups_[unit - graph_.nodes()]);
    }
    return rewriter_.finish(borders, depth);
  }

 private:
  const SymbolicShape& shape_of(NodeId id) const {
    return rewriter_.type(graph_.node(id).outputs[0]).shape;
  }

  // --- which nodes ---

  // Marks what comes after a write of the step. In a plan that commits, writes wait for what is
  // fetched and sent, and a group must not have parts on both sides.
  void find_written() {
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      bool written = !node.op->writes.empty();
      for (const ValueId input : node.inputs) {
        const NodeId producer = rewriter_.producer(input);
        written = written || (producer != kNone && written_[producer]);
      }
      for (const NodeId before : node.after) written = written || written_[before];
      written_[id] = written;
    }
  }

  // True if a program can have the node as a step.
  bool fits(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!node.after.empty() || !step_of(node, with_defaults(*node.op, node.attrs))) return false;
    const auto computes = [&](ValueId value) {
      const ValueType& type = rewriter_.type(value);
      return type.kind == ValueKind::tensor && has_element_programs(type.dtype);
    };
    const auto shape = shape_of(id).concrete();
    if (!shape || !computes(node.outputs[0])) return false;
    for (const ValueId input : node.inputs) {
      if (input == kNone || !computes(input)) return false;
      const auto of_input = rewriter_.type(input).shape.concrete();
      if (!of_input || !program_operand(*of_input, *shape)) return false;
      // Images may have another layout, in which nothing but single elements is broadcast.
      if (shape->rank() == 4 && *of_input != *shape && of_input->elements() != 1) return false;
    }
    return true;
  }

  // Adds the node to the group of one of its operands, if that may be.
  bool join(NodeId id) {
    for (const ValueId input : graph_.node(id).inputs) {
      const NodeId producer = rewriter_.producer(input);
      const uint32_t group = producer == kNone ? kNone : group_of_[producer];
      if (group == kNone || !may_join(id, group)) continue;
      groups_[group].members.push_back(id);
      groups_[group].last = place_[id];
      longest_ = std::max(longest_, groups_[group].last - groups_[group].first);
      group_of_[id] = group;
      return true;
    }
    return false;
  }
  bool may_join(NodeId id, uint32_t group) {
    Group& of = groups_[group];
    if (of.depth != depth_[id] || of.written != written_[id] || !(of.shape == shape_of(id)) ||
        graph_.node(of.members[0]).device != graph_.node(id).device ||
        of.members.size() == kMostProgramSteps)
      return false;
    of.members.push_back(id);
    group_of_[id] = group;
    const Numbered values = numbered(of);
    const bool small =
        values.inputs.size() <= kMostProgramInputs && values.results.size() <= kMostProgramResults;
    of.members.pop_back();
    group_of_[id] = kNone;
    return small && !follows_otherwise(id, group);
  }
  // True if the node depends on the group by way of a node outside of it: one kernel for all of
  // them would wait for itself. Nodes of other groups wait for all that their group waits for.
  // Paths by way of other devices raise the depth. Also true if too many nodes had to be looked at.
  bool follows_otherwise(NodeId id, uint32_t group) {
    const uint32_t lowest = lowest_place(group);
    std::vector<NodeId> waiting;
    ++search_;
    size_t visited = 0;
    const auto add = [&](NodeId node) {
      if (node == kNone || place_[node] < lowest || seen_[node] == search_) return;
      seen_[node] = search_;
      waiting.push_back(node);
      ++visited;
    };
    const auto add_operands = [&](NodeId node) {
      for (const ValueId input : graph_.node(node).inputs) add(rewriter_.producer(input));
      for (const NodeId before : graph_.node(node).after) add(before);
    };
    // The node's own operands may be of the group.
    for (const ValueId input : graph_.node(id).inputs) {
      const NodeId producer = rewriter_.producer(input);
      if (producer != kNone && group_of_[producer] != group) add(producer);
    }
    bool found = false;
    while (!waiting.empty() && !found) {
      const NodeId node = waiting.back();
      waiting.pop_back();
      found = group_of_[node] == group || visited > kMostVisited;
      if (group_of_[node] == kNone) {
        add_operands(node);
        continue;
      }
      for (const NodeId member : groups_[group_of_[node]].members) {
        seen_[member] = search_;
        add_operands(member);
      }
    }
    visits_ += visited;
    return found || visits_ > kMostVisits;
  }
  // No node at a lower place depends on the group: neither does it come later, nor is it in a group
  // with nodes on both sides of that place. Groups are in the order of their first nodes.
  uint32_t lowest_place(uint32_t group) const {
    uint32_t lowest = groups_[group].first;
    for (uint32_t other = group; other-- > 0;) {
      const Group& before = groups_[other];
      if (before.first + longest_ < lowest) break;
      if (before.last >= lowest) lowest = before.first;
    }
    return lowest;
  }

  Numbered numbered(const Group& group) const {
    Numbered values;
    const auto is_member = [&](NodeId id) {
      return id != kNone &&
             std::find(group.members.begin(), group.members.end(), id) != group.members.end();
    };
    for (const NodeId id : group.members) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (!is_member(rewriter_.producer(input)) &&
            std::find(values.inputs.begin(), values.inputs.end(), input) == values.inputs.end())
          values.inputs.push_back(input);
      }
      const ValueId output = graph_.node(id).outputs[0];
      const auto& readers = rewriter_.readers(output);
      if (rewriter_.is_fetched(output) || readers.empty() ||
          !std::all_of(readers.begin(), readers.end(), is_member))
        values.results.push_back(output);
    }
    return values;
  }

  // --- the new graph ---

  // Nodes, and groups as numbers behind those of nodes, so that each follows what it needs. Of
  // those that may come next it is the one whose last node comes first in the old order.
  std::vector<uint32_t> units_in_order() const {
    const auto nodes = static_cast<uint32_t>(graph_.nodes());
    const auto unit_of = [&](NodeId id) {
      return group_of_[id] == kNone ? id : nodes + group_of_[id];
    };
    std::vector<uint32_t> place(nodes + groups_.size(), 0), missing(place.size(), 0);
    for (uint32_t i = 0; i < order_.size(); ++i) place[unit_of(order_[i])] = i;
    std::vector<std::set<uint32_t>> followers(place.size());
    for (const NodeId id : order_) {
      const auto needs = [&](NodeId before) {
        if (before == kNone || unit_of(before) == unit_of(id)) return;
        if (followers[unit_of(before)].insert(unit_of(id)).second) ++missing[unit_of(id)];
      };
      for (const ValueId input : graph_.node(id).inputs) needs(rewriter_.producer(input));
      for (const NodeId before : graph_.node(id).after) needs(before);
    }
    using Next = std::pair<uint32_t, uint32_t>;  // place, unit
    std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
    std::set<uint32_t> units;
    for (const NodeId id : order_) units.insert(unit_of(id));
    for (const uint32_t unit : units) {
      if (missing[unit] == 0) ready.push({place[unit], unit});
    }
    std::vector<uint32_t> sorted;
    while (!ready.empty()) {
      const uint32_t unit = ready.top().second;
      ready.pop();
      sorted.push_back(unit);
      for (const uint32_t follower : followers[unit]) {
        if (--missing[follower] == 0) ready.push({place[follower], follower});
      }
    }
    return sorted;
  }

  void replace(const Group& group) {
    const Numbered values = numbered(group);
    ElementProgram program;
    program.inputs = static_cast<int>(values.inputs.size());
    std::map<ValueId, int> number;
    for (const ValueId input : values.inputs)
      number.emplace(input, static_cast<int>(number.size()));
    for (const NodeId id : group.members) {
      const Node& node = graph_.node(id);
      ElementStep step = *step_of(node, with_defaults(*node.op, node.attrs));
      step.a = number.at(node.inputs[0]);
      if (node.inputs.size() > 1) step.b = number.at(node.inputs[1]);
      step.dtype = rewriter_.type(node.outputs[0]).dtype;
      program.steps.push_back(step);
      number.emplace(node.outputs[0], static_cast<int>(number.size()));
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : values.inputs) inputs.push_back(rewriter_.value(input));
    std::vector<ValueType> types;
    for (const ValueId result : values.results) {
      program.results.push_back(number.at(result));
      types.push_back(rewriter_.type(result));
    }
    const NodeId made = rewriter_.add(group.members.back(), *fused_, std::move(inputs),
                                      program_attrs(program), types);
    for (size_t i = 0; i < values.results.size(); ++i)
      rewriter_.replace(values.results[i], rewriter_.to().node(made).outputs[i]);
    for (const NodeId id : group.members) rewriter_.map_node(id, made);
  }

  const Graph& graph_;
  const std::vector<uint32_t>& depth_;
  PartRewriter rewriter_;
  const OpDef* fused_;
  std::vector<NodeId> order_;
  std::vector<Group> groups_;
  std::vector<uint32_t> place_;     // by node: in the order
  std::vector<bool> written_;       // by node: it comes after a write
  std::vector<uint32_t> group_of_;  // by node; kNone: none
  std::vector<uint32_t> seen_;      // by node: the last search that came there
  uint32_t search_ = 0, longest_ = 0;
  size_t visits_ = 0;
};

}  // namespace

Result<Graph> fuse_elementwise(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                               const std::string& kind) {
  const std::vector<uint32_t> old_depth = depth;
  ElementwiseFusion fusion(graph, borders, old_depth, kind);
  LEAT_ASSIGN_OR_RETURN(const bool found, fusion.find());
  if (!found) return graph;
  return fusion.run(borders, depth);
}

}  // namespace leat
