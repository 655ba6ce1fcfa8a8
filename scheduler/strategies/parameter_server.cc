// Data parallelism with each variable in one place. Server i is on worker i's device, beside the
// shards that the worker holds.
//
// Nodes that touch a variable are *pinned* to its server: reading it, summing its gradient,
// applying it. A node that reads some rows of it for each shard is too: it gets the ids, and sends
// the rows. Common work that only reduces or changes what one server has stays there. All other
// common work (the learning rate, say) is done again wherever it is needed, since that costs less
// than sending it. So a step sends each variable to each worker once and, for each block of shards
// that the tree of sums has as one part, a gradient back. Sums, and so bits, are those of mirrored.
#include <algorithm>
#include <numeric>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/recipes/optimizer.h"
#include "scheduler/strategies/quorum.h"
#include "scheduler/strategies/replicate.h"

namespace leat {
namespace {

constexpr int kAnywhere = -1;
constexpr const char* kStepCounter = "asynchronous steps";

// The resources that a node touches, in the order of its operands.
std::vector<std::string> touched(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  const auto add = [&](const std::vector<ValueId>& values) {
    for (ValueId value : values) {
      if (std::string name = resource_name(graph, value); !name.empty()) names.push_back(name);
    }
  };
  add(node.inputs);
  add(node.outputs);
  return names;
}

// Of a queue, which has neither: 0.
uint64_t declared_bytes(const Attrs& attrs) {
  if (!has_attr(attrs, "shape")) return 0;
  const auto shape = Shape::checked(attr_ints(attrs, "shape"));
  const auto dtype = dtype_from_name(attr_string(attrs, "dtype", "float"));
  return shape && dtype ? static_cast<uint64_t>(shape->elements()) * dtype_size(*dtype) : 0;
}

uint64_t value_bytes(const Graph& graph, ValueId value) {
  const ValueType& type = graph.value(value).type;
  const auto shape = type.shape.concrete();
  return shape ? static_cast<uint64_t>(shape->elements()) * dtype_size(type.dtype) : 0;
}

// Decides where shards and common work is done.
class Placement {
 public:
  Placement(const Graph& graph, std::vector<int> holders, const VariableServers& servers)
      : graph_(graph), servers_(servers), holders_(std::move(holders)) {}

  Result<Division> run(const Borders& borders);

 private:
  Status pin();
  void anchor();
  void settle();
  void find_homes(const Borders& borders);
  bool common(NodeId id) const { return !sharded_[id]; }
  // A collective of what differs between shards: its work is the sum, done by its owner.
  bool combines(NodeId id) const;
  int common_place_of_inputs(const Node& node) const;

  const Graph& graph_;
  const VariableServers& servers_;
  const std::vector<int> holders_;  // of the shards
  std::vector<NodeId> order_;
  std::vector<bool> sharded_;
  std::vector<std::vector<NodeId>> readers_;  // by node: nodes that read it or come after it
  // By node: the one worker that has it.
  std::vector<int> place_;
  std::vector<int> anchor_;  // by node: the server that it works for; kAnywhere
  std::vector<std::vector<int>> homes_;
};

// Steps that a worker does by itself draw their numbers on the first server, and see each variable
// as it was at one moment, whatever others apply to it meanwhile.
Result<Graph> step_alone(const Graph& graph, Borders& borders, VariableServers& servers) {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  Rewriter rewriter(graph);
  const Catalogue& catalogue = graph.catalogue();
  NodeId drawn = kNone;
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    const std::string op = node.op->full_name();
    if (op == "leat.Step") {
      if (drawn == kNone) {
        const NodeId counter = rewriter.add(*catalogue.find("leat.StepCounter"), {},
                                            {{"name", std::string(kStepCounter)}}, 1);
        drawn = rewriter.add(*catalogue.find("leat.NextStep"),
                             {rewriter.to().node(counter).outputs[0]}, {}, 1);
      }
      rewriter.map_node(id, drawn);
      rewriter.map_value(node.outputs[0], rewriter.to().node(drawn).outputs[0]);
    } else if (op == "leat.Read") {
      const NodeId copy =
          rewriter.add(*catalogue.find("leat.Snapshot"), {rewriter.value(node.inputs[0])}, {}, 1);
      Node& made = rewriter.to().node(copy);
      for (NodeId before : node.after) made.after.push_back(rewriter.node(before));
      rewriter.to().set_value_name(made.outputs[0], graph.value_name(node.outputs[0]));
      rewriter.map_node(id, copy);
      rewriter.map_value(node.outputs[0], made.outputs[0]);
    } else {
      rewriter.copy(id);
    }
  }
  servers[kStepCounter] = 0;
  LEAT_ASSIGN_OR_RETURN(Graph alone, rewriter.finish(borders));
  LEAT_RETURN_IF_ERROR(Inference(alone).run());
  return alone;
}

bool Placement::combines(NodeId id) const {
  const Node& node = graph_.node(id);
  if (!is_collective(node)) return false;
  const NodeId producer = graph_.value(node.inputs[0]).producer;
  return producer != kNone && sharded_[producer];
}

// Puts each node that touches a variable on the variable's server. A node that touches variables of
// two servers has no place.
Status Placement::pin() {
  for (NodeId id = 0; id < graph_.nodes(); ++id) {
    const auto names = touched(graph_, graph_.node(id));
    if (names.empty()) continue;
    for (const std::string& name : names) {
      const auto server = servers_.find(name);
      if (server == servers_.end())
        return invalid_argument(cat("variable '", name, "': no parameter server has it"));
      if (place_[id] != kAnywhere && place_[id] != server->second) {
        return invalid_argument(cat(graph_.describe_node(id),
                                    ": expected variables of one server, '", names[0], "' and '",
                                    name, "' are on different ones"));
      }
      place_[id] = server->second;
    }
  }
  return {};
}

// The nearest server whose variables a common node is for, by the number of nodes in between.
void Placement::anchor() {
  std::vector<int> distance(graph_.nodes(), 0);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const NodeId id = *it;
    if (!common(id)) continue;
    anchor_[id] = place_[id];
    if (anchor_[id] != kAnywhere) continue;
    for (NodeId reader : readers_[id]) {
      if (!common(reader) || anchor_[reader] == kAnywhere) continue;
      const auto nearer = std::pair(distance[reader] + 1, anchor_[reader]);
      if (anchor_[id] == kAnywhere || nearer < std::pair(distance[id], anchor_[id]))
        std::tie(distance[id], anchor_[id]) = nearer;
    }
  }
}

// The one place of all that a node reads, constants aside; kAnywhere if there are several.
int Placement::common_place_of_inputs(const Node& node) const {
  int place = kAnywhere;
  for (ValueId input : node.inputs) {
    const NodeId producer = input == kNone ? kNone : graph_.value(input).producer;
    if (producer == kNone) {
      if (input != kNone) return kAnywhere;
      continue;
    }
    if (is_op(graph_.node(producer), "Constant")) continue;
    if (place_[producer] == kAnywhere || (place != kAnywhere && place != place_[producer]))
      return kAnywhere;
    place = place_[producer];
  }
  return place;
}

// A value that one server has stays there while it does not grow.
void Placement::settle() {
  for (NodeId id : order_) {
    if (!common(id) || place_[id] != kAnywhere) continue;
    if (combines(id)) {
      place_[id] = anchor_[id];
      continue;
    }
    const Node& node = graph_.node(id);
    uint64_t in = 0, out = 0;
    for (ValueId input : node.inputs) in += input == kNone ? 0 : value_bytes(graph_, input);
    for (ValueId output : node.outputs) out += output == kNone ? 0 : value_bytes(graph_, output);
    if (out <= in) place_[id] = common_place_of_inputs(node);
  }
}

// Lists the workers that need a copy of each node, from the readers back to the producers.
void Placement::find_homes(const Borders& borders) {
  std::vector<std::set<int>> wanted(graph_.nodes());
  for (ValueId fetch : borders.fetches) {
    if (graph_.value(fetch).producer != kNone)
      wanted[graph_.value(fetch).producer].insert(holders_[0]);
  }
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const NodeId id = *it;
    if (place_[id] != kAnywhere) wanted[id] = {place_[id]};
    if (place_[id] == kAnywhere && !sharded_[id] && !combines(id)) {
      for (NodeId reader : readers_[id]) {
        wanted[id].insert(wanted[reader].begin(), wanted[reader].end());
        if (sharded_[reader] && place_[reader] == kAnywhere)
          wanted[id].insert(holders_.begin(), holders_.end());
      }
      // A node that nothing reads has one copy.
      if (wanted[id].empty()) wanted[id].insert(holders_[0]);
    }
    homes_[id].assign(wanted[id].begin(), wanted[id].end());
  }
}

Result<Division> Placement::run(const Borders& borders) {
  LEAT_ASSIGN_OR_RETURN(order_, graph_.topological_order());
  LEAT_ASSIGN_OR_RETURN(sharded_, find_sharded(graph_, order_));
  place_.assign(graph_.nodes(), kAnywhere);
  anchor_ = place_;
  homes_.resize(graph_.nodes());
  readers_.resize(graph_.nodes());
  for (NodeId id : order_) {
    for (ValueId input : graph_.node(id).inputs) {
      if (input != kNone && graph_.value(input).producer != kNone)
        readers_[graph_.value(input).producer].push_back(id);
    }
    for (NodeId before : graph_.node(id).after) readers_[before].push_back(id);
  }
  LEAT_RETURN_IF_ERROR(pin());
  anchor();
  settle();
  find_homes(borders);
  return Division{holders_, std::move(homes_), std::move(anchor_), std::move(place_)};
}

// Variables that stay together, under the first of their names.
class VariableGroups {
 public:
  void add(const std::string& name, uint64_t bytes) {
    if (first_.try_emplace(name, name).second) bytes_[name] = bytes;
  }
  void join(const std::string& a, const std::string& b) {
    const std::string one = find(a), other = find(b);
    if (one == other) return;
    first_[std::max(one, other)] = std::min(one, other);
    bytes_[std::min(one, other)] += bytes_[std::max(one, other)];
  }
  std::string find(std::string name) const {
    while (first_.at(name) != name) name = first_.at(name);
    return name;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, first] : first_) out.push_back(name);
    return out;
  }
  uint64_t bytes(const std::string& first) const { return bytes_.at(first); }

 private:
  std::map<std::string, std::string> first_;
  std::map<std::string, uint64_t> bytes_;  // of a group, at its first name
};

// One worker computes all shards.
Result<Graph> replicate_on(int worker, const Graph& graph, Borders& borders,
                           const StrategyOptions& options, const VariableServers& servers) {
  const std::vector<int> holders(static_cast<size_t>(options.shards), worker);
  LEAT_ASSIGN_OR_RETURN(const Division division, Placement(graph, holders, servers).run(borders));
  return replicate(graph, borders, options, division);
}

// Asynchronous steps of one worker.
Result<Graph> apply_alone(const Graph& graph, Borders& borders, const StrategyOptions& options,
                          VariableServers servers) {
  if (options.asynchronous_worker >= static_cast<int>(options.workers.size())) {
    return invalid_argument(cat("asynchronous worker: expected one of ", options.workers.size(),
                                ", received ", options.asynchronous_worker));
  }
  LEAT_ASSIGN_OR_RETURN(const Graph alone, step_alone(graph, borders, servers));
  return replicate_on(options.asynchronous_worker, alone, borders, options, servers);
}

// Steps of one replica, or those that close them.
Result<Graph> apply_quorum(const Graph& graph, Borders& borders, const StrategyOptions& options,
                           VariableServers servers) {
  LEAT_ASSIGN_OR_RETURN(const Division whole, Placement(graph, {0}, servers).run(borders));
  LEAT_ASSIGN_OR_RETURN(const Graph half,
                        split_for_quorum(graph, borders, options, whole.owners, servers));
  StrategyOptions one_shard = options;
  one_shard.shards = 1;
  return replicate_on(std::max(0, options.quorum.replica), half, borders, one_shard, servers);
}

}  // namespace

VariableServers spread_variables(const std::vector<const Graph*>& graphs, int servers) {
  VariableGroups groups;
  for (const Graph* graph : graphs) {
    for (NodeId id = 0; id < graph->nodes(); ++id) {
      const Node& node = graph->node(id);
      if (node.op->make_resource)
        groups.add(attr_string(node.attrs, "name"), declared_bytes(node.attrs));
    }
    for (NodeId id = 0; id < graph->nodes(); ++id) {
      const auto names = touched(*graph, graph->node(id));
      for (size_t i = 1; i < names.size(); ++i) groups.join(names[0], names[i]);
    }
  }
  // The state of an optimizer stays with its variable, also where several nodes make the update.
  const std::vector<std::string> all = groups.names();
  for (const std::string& name : all) {
    const size_t slash = name.rfind('/');
    if (!name.starts_with(kOptimizerPrefix) || slash < kOptimizerPrefix.size()) continue;
    const std::string variable =
        name.substr(kOptimizerPrefix.size(), slash - kOptimizerPrefix.size());
    if (std::binary_search(all.begin(), all.end(), variable)) groups.join(name, variable);
  }
  std::vector<std::string> firsts;
  for (const std::string& name : groups.names()) {
    if (groups.find(name) == name) firsts.push_back(name);
  }
  // The largest group comes first, because the small ones then even out the loads.
  std::stable_sort(firsts.begin(), firsts.end(), [&](const std::string& a, const std::string& b) {
    return groups.bytes(a) > groups.bytes(b);
  });
  std::vector<uint64_t> load(static_cast<size_t>(std::max(1, servers)), 0);
  std::map<std::string, int> server_of;
  for (const std::string& first : firsts) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += groups.bytes(first);
    server_of[first] = static_cast<int>(least - load.begin());
  }
  VariableServers out;
  for (const std::string& name : groups.names()) out[name] = server_of.at(groups.find(name));
  return out;
}

namespace {

Result<Graph> apply_parameter_server(const Graph& graph, Borders& borders,
                                     const StrategyOptions& options) {
  if (options.servers < 1 || static_cast<size_t>(options.servers) > options.workers.size()) {
    return invalid_argument(cat("parameter servers: expected 1 to ", options.workers.size(),
                                ", the workers, received ", options.servers));
  }
  const VariableServers servers = options.variable_servers.empty()
                                      ? spread_variables({&graph}, options.servers)
                                      : options.variable_servers;
  if (options.quorum.replicas_to_aggregate > 0)
    return apply_quorum(graph, borders, options, servers);
  if (options.asynchronous_worker >= 0) return apply_alone(graph, borders, options, servers);
  LEAT_RETURN_IF_ERROR(check_shards(options));
  LEAT_ASSIGN_OR_RETURN(const Division division,
                        Placement(graph, blocks_of_shards(options), servers).run(borders));
  return replicate(graph, borders, options, division);
}

}  // namespace

// Each variable is on one device, its server, which sums and applies its gradients; workers get its
// value at the start of a step. The bits are those of mirrored. In the graph of one worker that
// steps by itself, step numbers come from a counter, and a read of a variable copies it.
Strategy parameter_server_strategy() {
  Strategy strategy;
  strategy.name = "parameter_server";
  strategy.description =
      "each variable is on one server, which sums and applies its gradients; every worker has a "
      "block of the shards";
  strategy.apply = apply_parameter_server;
  // Replicas of a quorum read copies, and leave whole gradients to be summed: see
  // ops/definitions/quorum.cc.
  strategy.moves_rows = [](const DivisionOptions& options) {
    return options.quorum.replicas_to_aggregate == 0;
  };
  strategy.uses_servers = true;
  return strategy;
}

}  // namespace leat
