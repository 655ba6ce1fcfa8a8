#include <algorithm>
#include <map>
#include <numeric>

#include "devices/base/text.h"
#include "ops/op.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t from = 0;
  while (true) {
    const size_t to = text.find(separator, from);
    parts.push_back(text.substr(from, to == std::string::npos ? to : to - from));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

// Groups of nodes that must share a device, with the reason of each union.
class Groups {
 public:
  explicit Groups(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0u); }
  NodeId find(NodeId id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void join(NodeId a, NodeId b, std::string why) {
    reasons_.push_back({a, b, std::move(why)});
    a = find(a);
    b = find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }
  // The unions that lead from a to b.
  std::string path(NodeId a, NodeId b) const {
    std::map<NodeId, std::pair<NodeId, size_t>> from;
    std::vector<NodeId> queue{a};
    for (size_t i = 0; i < queue.size() && !from.count(b); ++i) {
      for (size_t r = 0; r < reasons_.size(); ++r) {
        for (auto [x, y] :
             {std::pair(reasons_[r].a, reasons_[r].b), std::pair(reasons_[r].b, reasons_[r].a)}) {
          if (x == queue[i] && y != a && !from.count(y)) {
            from[y] = {x, r};
            queue.push_back(y);
          }
        }
      }
    }
    std::vector<std::string> reasons;
    for (NodeId at = b; from.count(at); at = from[at].first)
      reasons.push_back(reasons_[from[at].second].why);
    std::reverse(reasons.begin(), reasons.end());
    return join_text(reasons);
  }

 private:
  struct Reason {
    NodeId a, b;
    std::string why;
  };
  static std::string join_text(const std::vector<std::string>& reasons) {
    return leat::join(reasons, "; ");
  }
  std::vector<NodeId> parent_;
  std::vector<Reason> reasons_;
};

uint64_t value_bytes(const Graph& graph, ValueId value) {
  const ValueType& type = graph.value(value).type;
  const auto shape = type.shape.concrete();
  return shape ? static_cast<uint64_t>(shape->elements()) * dtype_size(type.dtype) : 0;
}

// The devices that satisfy a node's constraint and have a kernel for it.
std::vector<bool> feasible(const Node& node, const std::vector<std::string>& devices) {
  std::vector<bool> ok;
  for (const std::string& device : devices) ok.push_back(matches_device(node.device, device));
  return ok;
}

}  // namespace

bool matches_device(const std::string& constraint, const std::string& device) {
  if (constraint.empty() || constraint == device) return true;
  const auto have = split(device, '/');
  for (const std::string& want : split(constraint, '/')) {
    if (want.empty() || want == "*") continue;
    const auto wanted = split(want, ':');
    const bool found = std::any_of(have.begin(), have.end(), [&](const std::string& part) {
      const auto parts = split(part, ':');
      if (parts[0] != wanted[0]) return false;
      return wanted.size() < 2 || wanted[1] == "*" || (parts.size() > 1 && parts[1] == wanted[1]);
    });
    if (!found) return false;
  }
  return true;
}

Result<Graph> place(const Graph& graph, const std::vector<std::string>& devices) {
  Groups groups(graph.nodes());
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    for (ValueId input : graph.node(id).inputs) {
      if (input == kNone || graph.value(input).type.kind != ValueKind::resource) continue;
      const NodeId producer = graph.value(input).producer;
      groups.join(
          id, producer,
          cat(graph.describe_node(id), " uses the resource of ", graph.describe_node(producer)));
    }
  }
  // What each group may use, and who narrowed it.
  std::map<NodeId, std::vector<bool>> allowed;
  std::map<NodeId, NodeId> narrowed_by;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const auto own = feasible(graph.node(id), devices);
    if (std::none_of(own.begin(), own.end(), [](bool b) { return b; })) {
      return invalid_argument(cat(graph.describe_node(id), ": expected a device that satisfies '",
                                  graph.node(id).device, "', there are ", join(devices, ", ")));
    }
    const NodeId group = groups.find(id);
    auto [it, fresh] = allowed.try_emplace(group, own);
    if (fresh) {
      if (!graph.node(id).device.empty()) narrowed_by[group] = id;
      continue;
    }
    std::vector<bool> both = it->second;
    for (size_t d = 0; d < both.size(); ++d) both[d] = both[d] && own[d];
    if (std::none_of(both.begin(), both.end(), [](bool b) { return b; })) {
      const NodeId other = narrowed_by.count(group) ? narrowed_by[group] : group;
      return invalid_argument(cat(graph.describe_node(id), " on '", graph.node(id).device, "' and ",
                                  graph.describe_node(other), " on '", graph.node(other).device,
                                  "': must share a device, because ", groups.path(other, id)));
    }
    it->second = both;
    if (!graph.node(id).device.empty()) narrowed_by[group] = id;
  }
  // In topological order: the group's device is where most bytes of its first node's inputs are; a
  // group of variables that may be anywhere goes to the device with the fewest bytes of variables.
  Graph placed = graph;
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  std::map<NodeId, size_t> chosen;
  std::vector<size_t> device_of(graph.nodes(), 0);
  for (NodeId id : order) {
    const NodeId group = groups.find(id);
    if (!chosen.count(group)) {
      std::vector<uint64_t> bytes(devices.size(), 0);
      for (ValueId input : graph.node(id).inputs) {
        if (input == kNone || graph.value(input).producer == kNone) continue;
        bytes[device_of[graph.value(input).producer]] += value_bytes(graph, input) + 1;
      }
      const auto& may = allowed[group];
      size_t best = devices.size();
      for (size_t d = 0; d < devices.size(); ++d) {
        if (may[d] && (best == devices.size() || bytes[d] > bytes[best])) best = d;
      }
      chosen[group] = best;
    }
    device_of[id] = chosen[group];
    placed.node(id).device = devices[chosen[group]];
  }
  return placed;
}

}  // namespace leat
