#include "scheduler/strategies/quorum.h"

#include <map>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/prune.h"
#include "scheduler/strategies/replicate.h"

namespace leat {
namespace {

// Splits a graph; each half is one pass over it.
class Splitter {
 public:
  Splitter(const Graph& graph, const StrategyOptions& options, const std::vector<int>& owners,
           VariableServers& servers)
      : graph_(graph),
        options_(options),
        owners_(owners),
        servers_(servers),
        rewriter_(graph),
        pool_(add_pool()) {}

  Result<Graph> replica(Borders& borders);
  Result<Graph> closing(Borders& borders);

 private:
  Status check(const std::vector<NodeId>& order) const;
  NodeId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, int outputs) {
    return rewriter_.add(*graph_.catalogue().find(op), std::move(inputs), std::move(attrs),
                         outputs);
  }
  ValueId output(NodeId made, size_t i = 0) { return rewriter_.to().node(made).outputs[i]; }
  ValueId add_pool();
  ValueId clock(int server);
  ValueId staging(NodeId collective);
  NodeId await_step(int server);
  Result<int> server_of(const Node& node) const;
  int owner(NodeId collective) const { return std::max(0, owners_[collective]); }

  Result<NodeId> snapshot(NodeId id);
  void read_chunk(NodeId id);
  NodeId stage(NodeId id);
  void sum(NodeId id, ValueId members);
  Result<Graph> finish(Borders& borders);

  const Graph& graph_;
  const StrategyOptions& options_;
  const std::vector<int>& owners_;
  VariableServers& servers_;
  Rewriter rewriter_;
  const ValueId pool_;
  NodeId ticket_ = kNone;
  std::map<int, ValueId> clocks_;
  std::map<int, NodeId> awaited_;  // by server
};

// Adds the pool that all replicas share. It hands out tickets and counts arrivals, on server 0.
ValueId Splitter::add_pool() {
  const std::string name = "replica pool";
  servers_[name] = 0;
  return output(add("leat.ReplicaPool", {},
                    {{"name", name},
                     {"replicas", static_cast<int64_t>(options_.workers.size())},
                     {"quorum", int64_t{options_.quorum.replicas_to_aggregate}},
                     {"requeue", int64_t{options_.quorum.requeue}}},
                    1));
}

// The clock of a server says which step its variables have seen. Each half adds it once.
ValueId Splitter::clock(int server) {
  const auto found = clocks_.find(server);
  if (found != clocks_.end()) return found->second;
  const std::string name = cat("step clock ", server);
  servers_[name] = server;
  return clocks_[server] = output(add("leat.StepClock", {}, {{"name", name}}, 1));
}

// The resource in which replicas leave their values of a collective. Both halves use the same name.
ValueId Splitter::staging(NodeId collective) {
  const ValueType& type = graph_.value(graph_.node(collective).inputs[0]).type;
  const std::string name = cat("staged ", collective);
  servers_[name] = owner(collective);
  const Shape shape = type.shape.concrete().value_or(Shape());
  return output(add("leat.Staging", {},
                    {{"name", name},
                     {"replicas", static_cast<int64_t>(options_.workers.size())},
                     {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                     {"dtype", std::string(dtype_name(type.dtype))}},
                    1));
}

// Of a replica: after it, the server's variables are those of its step.
NodeId Splitter::await_step(int server) {
  const auto found = awaited_.find(server);
  if (found != awaited_.end()) return found->second;
  return awaited_[server] = add("leat.AwaitStep", {clock(server), output(ticket_)}, {}, 0);
}

// The server of the variable that a node reads or writes; an error if it has none.
Result<int> Splitter::server_of(const Node& node) const {
  const std::string name = resource_name(graph_, node.inputs[0]);
  const auto found = servers_.find(name);
  if (found == servers_.end())
    return invalid_argument(cat("variable '", name, "': no parameter server has it"));
  return found->second;
}

// Replicas meet once a step, at sums that they do not wait for.
Status Splitter::check(const std::vector<NodeId>& order) const {
  std::vector<bool> after(graph_.nodes(), false);
  for (NodeId id : order) {
    const Node& node = graph_.node(id);
    for (ValueId input : node.inputs) {
      const NodeId producer = input == kNone ? kNone : graph_.value(input).producer;
      if (producer == kNone) continue;
      after[id] = after[id] || after[producer] || is_collective(graph_.node(producer));
    }
    if (!is_collective(node)) continue;
    const std::string op = attr_string(node.attrs, "op", "sum");
    const ValueType& type = graph_.value(node.inputs[0]).type;
    const bool staged =
        (type.dtype == DType::f32 || type.dtype == DType::f64) && type.shape.concrete().has_value();
    // A second collective behind the first one would need a sum that is not there until the step
    // closes.
    if (is_op(node, "leat.AllReduce") && (op == "sum" || op == "mean") && !after[id] && staged)
      continue;
    return unimplemented(
        cat(graph_.describe_node(id), ": with replicas_to_aggregate below ",
            "total_num_replicas, expected sums and means of float or double alone, "
            "of what no other replica is needed for"));
  }
  return {};
}

// A Read that sees no update between those of two variables.
Result<NodeId> Splitter::snapshot(NodeId id) {
  const Node& node = graph_.node(id);
  LEAT_ASSIGN_OR_RETURN(const int server, server_of(node));
  const NodeId await = await_step(server);
  const NodeId made = add("leat.Snapshot", {rewriter_.value(node.inputs[0])}, {}, 1);
  rewriter_.to().node(made).after.push_back(await);
  rewriter_.to().set_value_name(output(made), graph_.value_name(node.outputs[0]));
  rewriter_.map_node(id, made);
  rewriter_.map_value(node.outputs[0], output(made));
  return made;
}

// Chunks are batches of as many rows as the replica reads.
void Splitter::read_chunk(NodeId id) {
  const ValueId step = graph_.node(id).inputs[0];
  const ValueId was = rewriter_.value(step);
  rewriter_.map_value(step, output(ticket_, 1));
  Node& made = rewriter_.to().node(rewriter_.copy(id));
  made.attrs["global_batch"] = attr_int(made.attrs, "rows");
  rewriter_.map_value(step, was);
}

// Leaves the replica's value of a collective at its owner. The step must have begun there, because
// the values of the step before are still being added up until then.
NodeId Splitter::stage(NodeId id) {
  rewriter_.copy(id);
  const ValueId value = rewriter_.value(graph_.node(id).outputs[0]);
  const NodeId await = await_step(owner(id));
  const NodeId made =
      add("leat.Stage", {staging(id), value}, {{"replica", int64_t{options_.quorum.replica}}}, 0);
  rewriter_.to().node(made).after.push_back(await);
  return made;
}

// Adds up the staged values of the replicas that the step has taken as members.
void Splitter::sum(NodeId id, ValueId members) {
  const Node& node = graph_.node(id);
  const ValueId values = staging(id);
  const Node& made_staging = rewriter_.to().node(rewriter_.to().value(values).producer);
  const Attrs attrs{{"shape", made_staging.attrs.at("shape")},
                    {"dtype", made_staging.attrs.at("dtype")},
                    {"mean", int64_t{attr_string(node.attrs, "op", "sum") == "mean"}}};
  const NodeId made = add("leat.SumStaged", {values, members}, attrs, 1);
  rewriter_.to().set_value_name(output(made), graph_.value_name(node.outputs[0]));
  rewriter_.map_node(id, made);
  rewriter_.map_value(node.outputs[0], output(made));
}

// Removes what the half does not need: a replica has no updates, and the closing graph no forward
// pass.
Result<Graph> Splitter::finish(Borders& borders) {
  Borders none;
  LEAT_ASSIGN_OR_RETURN(Graph whole, rewriter_.finish(none));
  LEAT_RETURN_IF_ERROR(Inference(whole).run());
  return prune(whole, borders);
}

Result<Graph> Splitter::replica(Borders& borders) {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
  LEAT_RETURN_IF_ERROR(check(order));
  // The ticket has the number of the step and that of the chunk of rows. Both replace what the step
  // counter gives to a graph that all workers run together.
  ticket_ = add("leat.NextTicket", {pool_}, {{"replica", int64_t{options_.quorum.replica}}}, 2);
  std::vector<NodeId> staged;
  for (NodeId id : order) {
    const Node& node = graph_.node(id);
    if (is_op(node, "leat.Step")) {
      rewriter_.map_node(id, ticket_);
      rewriter_.map_value(node.outputs[0], output(ticket_));
    } else if (is_op(node, "leat.ReadBatch")) {
      const std::string sharding = attr_string(node.attrs, "sharding");
      if (!sharding.empty() && sharding != "data") {
        return invalid_argument(cat("'", node.name, "': sharding: expected data with a quorum, ",
                                    "whose replicas take the rows that come next, received ",
                                    sharding));
      }
      read_chunk(id);
    } else if (is_op(node, "leat.Read")) {
      LEAT_RETURN_IF_ERROR(snapshot(id).status());
    } else if (is_collective(node)) {
      staged.push_back(stage(id));
    } else {
      rewriter_.copy(id);
    }
  }
  // A replica has arrived when all of its values are staged. Nothing is fetched from it.
  const NodeId arrive =
      add("leat.Arrive", {pool_}, {{"replica", int64_t{options_.quorum.replica}}}, 0);
  rewriter_.to().node(arrive).after = staged;
  borders = {{}, {}, {arrive}};
  return finish(borders);
}

Result<Graph> Splitter::closing(Borders& borders) {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
  LEAT_RETURN_IF_ERROR(check(order));
  // The first output says which replicas are in the step, the second how many chunks were dropped.
  const NodeId quorum = add("leat.AwaitQuorum", {pool_},
                            {{"quorum", int64_t{options_.quorum.replicas_to_aggregate}}}, 2);
  std::map<int, std::vector<NodeId>> before;  // by server: what its clock waits for
  for (NodeId id : order) {
    if (is_collective(graph_.node(id))) {
      sum(id, output(quorum));
      before[owner(id)].push_back(rewriter_.node(id));
    } else {
      rewriter_.copy(id);
    }
  }
  Borders out;
  for (ValueId fetch : borders.fetches) out.fetches.push_back(rewriter_.value(fetch));
  out.fetches.push_back(output(quorum, 1));
  rewriter_.to().set_value_name(output(quorum, 1), "dropped");
  for (NodeId target : borders.targets) {
    LEAT_ASSIGN_OR_RETURN(const int server, server_of(graph_.node(target)));
    before[server].push_back(rewriter_.node(target));
    out.targets.push_back(rewriter_.node(target));
  }
  // A clock goes on when all sums and updates of its server are done. Replicas wait for it before
  // they read the variables of the next step.
  for (int server = 0; server < options_.servers; ++server) {
    const NodeId advance = add("leat.AdvanceStep", {clock(server)}, {}, 0);
    // A sum that no node reads is gone from the graph, but for the clock.
    rewriter_.to().node(advance).after = before[server];
    out.targets.push_back(advance);
  }
  borders = std::move(out);
  return finish(borders);
}

}  // namespace

Result<Graph> split_for_quorum(const Graph& graph, Borders& borders, const StrategyOptions& options,
                               const std::vector<int>& owners, VariableServers& servers) {
  const auto replicas = static_cast<int>(options.workers.size());
  const Quorum& quorum = options.quorum;
  if (quorum.replicas_to_aggregate > replicas || quorum.replica >= replicas) {
    return invalid_argument(cat("quorum: expected at most ", replicas, ", the workers, received ",
                                quorum.replicas_to_aggregate, " for replica ", quorum.replica));
  }
  if (!borders.feeds.empty())
    return unimplemented("quorum: expected a graph without feeds, which reads its own rows");
  Splitter splitter(graph, options, owners, servers);
  return quorum.replica < 0 ? splitter.closing(borders) : splitter.replica(borders);
}

}  // namespace leat
