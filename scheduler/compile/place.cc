#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// Groups of nodes that must share a device, as a union-find. It keeps the reason of each union for
// the message of a conflict.
class Groups {
 public:
  explicit Groups(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0u); }
  NodeId find(NodeId id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  // Joins the groups of two nodes, because `a` uses the resource of `b`.
  void join(NodeId a, NodeId b) {
    reasons_.push_back({a, b});
    a = find(a);
    b = find(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }
  // The reasons that lead from a to b, as text: the shortest such chain, found breadth first.
  std::string path(const Graph& graph, NodeId a, NodeId b) const {
    std::map<NodeId, std::pair<NodeId, size_t>> from;
    std::vector<NodeId> queue{a};
    for (size_t i = 0; i < queue.size() && !from.count(b); ++i) {
      for (size_t r = 0; r < reasons_.size(); ++r) {
        for (auto [x, y] :
             {std::pair(reasons_[r].a, reasons_[r].b), std::pair(reasons_[r].b, reasons_[r].a)}) {
          // Each reason joins two nodes, and leads both ways.
          if (x == queue[i] && y != a && !from.count(y)) {
            from[y] = {x, r};
            queue.push_back(y);
          }
        }
      }
    }
    std::vector<std::string> reasons;
    for (NodeId at = b; from.count(at); at = from[at].first) {
      const Reason& reason = reasons_[from[at].second];
      reasons.push_back(cat(graph.describe_node(reason.a), " uses the resource of ",
                            graph.describe_node(reason.b)));
    }
    std::reverse(reasons.begin(), reasons.end());
    return leat::join(reasons, "; ");
  }

 private:
  struct Reason {
    NodeId a, b;
  };
  std::vector<NodeId> parent_;
  std::vector<Reason> reasons_;
};

// The size of a value; 0 if it is not known.
uint64_t value_bytes(const Graph& graph, ValueId value) {
  const ValueType& type = graph.value(value).type;
  const auto shape = type.shape.concrete();
  return shape ? static_cast<uint64_t>(shape->elements()) * dtype_size(type.dtype) : 0;
}

// Devices by their index in the caller's list, ascending.
using Numbers = std::vector<uint32_t>;

// Finds the devices that satisfy a constraint. On a cluster of thousands of devices nearly every
// node names one: the index looks devices up by the parts of their names, and each constraint once.
class DeviceIndex {
 public:
  explicit DeviceIndex(const std::vector<PlanDevice>& devices) {
    for (uint32_t d = 0; d < devices.size(); ++d) {
      all_.push_back(d);
      for (const std::string& part : split_name(devices[d].name, '/')) {
        const auto words = split_name(part, ':');
        add(with_[words[0]], d);
        if (words.size() > 1) add(with_[cat(words[0], ":", words[1])], d);
      }
    }
  }
  const Numbers& all() const { return all_; }
  const Numbers& matching(const std::string& constraint) {
    if (constraint.empty()) return all_;
    // The search happens once for each text. References to the result stay valid: the map does not
    // move it.
    const auto [it, fresh] = found_.try_emplace(constraint);
    if (fresh) it->second = find(constraint);
    return it->second;
  }

 private:
  static void add(Numbers& to, uint32_t device) {
    if (to.empty() || to.back() != device) to.push_back(device);
  }
  Numbers find(const std::string& constraint) const {
    std::vector<const Numbers*> wanted;
    for (const std::string& part : split_name(constraint, '/')) {
      if (part.empty() || part == "*") continue;
      const auto words = split_name(part, ':');
      const bool any = words.size() < 2 || words[1] == "*";
      const auto it = with_.find(any ? words[0] : cat(words[0], ":", words[1]));
      if (it == with_.end()) return {};
      wanted.push_back(&it->second);
    }
    // The shortest list comes first, so that few devices are compared with the others.
    std::sort(wanted.begin(), wanted.end(),
              [](const Numbers* a, const Numbers* b) { return a->size() < b->size(); });
    Numbers found = wanted.empty() ? all_ : *wanted[0];
    for (const Numbers* others : wanted) {
      std::erase_if(found, [&](uint32_t device) {
        return !std::binary_search(others->begin(), others->end(), device);
      });
    }
    return found;
  }

  Numbers all_;
  std::unordered_map<std::string, Numbers> with_;   // by part ("task:1") and by its word ("task")
  std::unordered_map<std::string, Numbers> found_;  // by constraint
};

// The devices that a group of nodes may be on.
struct Place {
  const Numbers* shared = nullptr;  // the index's list, while one constraint decides
  Numbers met;                      // the intersection, once several do
  NodeId narrowed_by = kNone;       // the last node of the group that has a constraint
  uint32_t chosen = kNone;
  const Numbers& allowed() const { return shared ? *shared : met; }
};

// Joins each node that has a resource as input with the node that makes the resource.
Groups group_by_resource(const Graph& graph) {
  Groups groups(graph.nodes());
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    for (ValueId input : graph.node(id).inputs) {
      if (input == kNone || graph.value(input).type.kind != ValueKind::resource) continue;
      groups.join(id, graph.value(input).producer);
    }
  }
  return groups;
}

std::string names_of(const std::vector<PlanDevice>& devices) {
  std::vector<std::string> names;
  for (const PlanDevice& device : devices) names.push_back(device.name);
  return join(names, ", ");
}

// By the node that represents a group: the devices that satisfy the constraints of all its nodes.
Result<std::vector<Place>> find_places(const Graph& graph, DeviceIndex& index,
                                       const std::vector<PlanDevice>& devices, Groups& groups) {
  std::vector<Place> places(graph.nodes());
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const std::string& constraint = graph.node(id).device;
    const Numbers& own = index.matching(constraint);
    if (own.empty()) {
      return invalid_argument(cat(graph.describe_node(id), ": expected a device that satisfies '",
                                  constraint, "', there are ", names_of(devices)));
    }
    const NodeId group = groups.find(id);
    Place& place = places[group];
    if (!place.shared && place.met.empty()) {
      place.shared = &own;
    } else if (place.shared != &own) {
      Numbers both;
      std::set_intersection(place.allowed().begin(), place.allowed().end(), own.begin(), own.end(),
                            std::back_inserter(both));
      if (both.empty()) {
        // The message names the last constraint before this one and the chain of resources between
        // both.
        const NodeId other = place.narrowed_by != kNone ? place.narrowed_by : group;
        return invalid_argument(cat(graph.describe_node(id), " on '", constraint, "' and ",
                                    graph.describe_node(other), " on '", graph.node(other).device,
                                    "': must share a device, because ",
                                    groups.path(graph, other, id)));
      }
      place.shared = nullptr;
      place.met = std::move(both);
    }
    if (!constraint.empty()) place.narrowed_by = id;
  }
  return places;
}

bool is_constant(const Node& node) { return is_op(node, "Constant"); }

// True if a device of that kind can run the node. A constant is data, and a variable is memory; any
// other resource belongs to the host.
bool can_run(const Graph& graph, const Node& node, const PlanDevice& device) {
  if (device.is_cpu() || is_constant(node)) return true;
  if (node.op->make_resource) return graph.value(node.outputs[0]).type.dtype != DType::invalid;
  if (!node.op->kernels.contains(device.kind)) return false;
  const auto supports = node.op->supports.find(device.kind);
  if (supports == node.op->supports.end()) return true;
  const Attrs attrs = with_defaults(*node.op, node.attrs);
  const auto types = concrete_types(graph, node, attrs);
  return types.ok() && supports->second(*types);
}

bool differ_in_kind(const std::vector<PlanDevice>& devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const PlanDevice& device) { return device.kind != devices[0].kind; });
}

// Takes from each group the devices that have no kernel for one of its nodes.
Status keep_able(const Graph& graph, const std::vector<PlanDevice>& devices, Groups& groups,
                 std::vector<Place>& places) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    Place& place = places[groups.find(id)];
    Numbers able;
    for (const uint32_t device : place.allowed()) {
      if (can_run(graph, node, devices[device])) able.push_back(device);
    }
    if (able.size() == place.allowed().size()) continue;
    if (able.empty()) {
      const PlanDevice& one = devices[place.allowed()[0]];
      return invalid_argument(cat(graph.describe_node(id), ": expected a device that has a kernel ",
                                  "for it, ", one.name, " has none (", one.kind, ")"));
    }
    place.shared = nullptr;
    place.met = std::move(able);
  }
  return {};
}

// A value of so few elements costs more to launch a kernel for than to compute.
constexpr int64_t kFewElements = 64;

struct Smallness {
  bool few = true;       // all that the node reads and makes are tensors of few elements
  bool integers = true;  // and none of them has floats
};
Smallness smallness_of(const Graph& graph, const Node& node) {
  Smallness smallness;
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *values) {
      if (value == kNone) continue;
      const ValueType& type = graph.value(value).type;
      const auto shape = type.shape.concrete();
      smallness.few = smallness.few && type.kind == ValueKind::tensor && shape &&
                      shape->elements() <= kFewElements;
      smallness.integers = smallness.integers && !is_float(type.dtype);
    }
  }
  return smallness;
}

// True for bookkeeping, which a CPU does better: a few integers, such as sizes and counters, or a
// few numbers that a CPU has made, such as a learning rate. Numbers of an accelerator stay there.
bool suits_cpu(const Graph& graph, const Node& node, const std::vector<PlanDevice>& devices,
               const std::vector<uint32_t>& device_of) {
  const Smallness smallness = smallness_of(graph, node);
  if (!smallness.few) return false;
  bool made_by_cpu = false;
  for (const ValueId input : node.inputs) {
    const NodeId producer = input == kNone ? kNone : graph.value(input).producer;
    if (producer == kNone || is_constant(graph.node(producer))) continue;
    if (!devices[device_of[producer]].is_cpu()) return false;
    made_by_cpu = true;
  }
  return made_by_cpu || smallness.integers;
}

// Those of the allowed devices among which choose_device() chooses.
Numbers preferred(const Graph& graph, NodeId id, const Numbers& allowed,
                  const std::vector<PlanDevice>& devices, const std::vector<uint32_t>& device_of) {
  const bool on_cpu = suits_cpu(graph, graph.node(id), devices, device_of);
  Numbers liked;
  for (const uint32_t device : allowed) {
    if (devices[device].is_cpu() == on_cpu) liked.push_back(device);
  }
  return liked.empty() ? allowed : liked;
}

// The device that holds most bytes of a node's inputs; the first of them if there are several. Each
// input counts one byte more than it has, so that inputs without bytes count, too.
uint32_t choose_device(const Graph& graph, NodeId id, const Numbers& allowed,
                       const std::vector<uint32_t>& device_of) {
  if (allowed.size() == 1) return allowed[0];
  std::map<uint32_t, uint64_t> bytes;
  for (ValueId input : graph.node(id).inputs) {
    const NodeId producer = input == kNone ? kNone : graph.value(input).producer;
    if (producer != kNone) bytes[device_of[producer]] += value_bytes(graph, input) + 1;
  }
  uint32_t best = allowed[0];
  uint64_t most = bytes.count(best) ? bytes[best] : 0;
  for (const auto& [device, held] : bytes) {
    if (held <= most || !std::binary_search(allowed.begin(), allowed.end(), device)) continue;
    best = device;
    most = held;
  }
  return best;
}

}  // namespace

Result<Graph> place(Graph graph, const std::vector<PlanDevice>& devices) {
  Groups groups = group_by_resource(graph);
  DeviceIndex index(devices);
  LEAT_ASSIGN_OR_RETURN(auto places, find_places(graph, index, devices, groups));
  const bool mixed = differ_in_kind(devices);
  if (mixed) LEAT_RETURN_IF_ERROR(keep_able(graph, devices, groups, places));
  // Nodes come in topological order, so a group goes where the inputs of its first node are.
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  std::vector<uint32_t> device_of(graph.nodes(), 0);
  for (NodeId id : order) {
    Place& place = places[groups.find(id)];
    if (place.chosen == kNone) {
      const Numbers& allowed = place.allowed();
      place.chosen = choose_device(
          graph, id, mixed ? preferred(graph, id, allowed, devices, device_of) : allowed,
          device_of);
    }
    device_of[id] = place.chosen;
  }
  // Each device gets a copy of the constants that it reads, so that a constant elsewhere than at a
  // reader would only take memory.
  std::vector<bool> met(graph.nodes(), false);
  for (size_t i = 0; mixed && i < order.size(); ++i) {
    for (const ValueId input : graph.node(order[i]).inputs) {
      const NodeId producer = input == kNone ? kNone : graph.value(input).producer;
      if (producer == kNone || !is_constant(graph.node(producer)) || met[producer]) continue;
      met[producer] = true;
      device_of[producer] = device_of[order[i]];
    }
  }
  for (NodeId id : order) graph.node(id).device = devices[device_of[id]].name;
  return graph;
}

}  // namespace leat
