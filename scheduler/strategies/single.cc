#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "scheduler/strategies/replicate.h"

namespace leat {
namespace {

// One replica: what it would combine with others is its own value. Constraints of the graph stay,
// so that a model spread over devices by hand is placed as it says.
Result<Graph> keep_one(const Graph& graph, Borders& borders) {
  Rewriter rewriter(graph);
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (!is_collective(node)) {
      rewriter.copy(id);
      continue;
    }
    if (attr_int(node.attrs, "replicas", 1) != 1 || attr_int(node.attrs, "root") != 0) {
      return invalid_argument(
          cat(graph.describe_node(id), ": expected one replica, as the job has"));
    }
    const ValueId input = rewriter.value(node.inputs[0]);
    // With one replica the result of a collective is its input. Nodes that wait for the collective
    // wait for the input's producer instead.
    rewriter.map_value(node.outputs[0], input);
    const NodeId producer = rewriter.to().value(input).producer;
    if (producer != kNone) rewriter.map_node(id, producer);
  }
  return rewriter.finish(borders);
}

Result<Graph> apply_single(const Graph& graph, Borders& borders, const StrategyOptions& options) {
  if (options.shards == 1) return keep_one(graph, borders);
  StrategyOptions one = options;
  one.workers = {options.workers[0]};
  LEAT_RETURN_IF_ERROR(check_shards(one));
  Division division;
  division.holders = blocks_of_shards(one);
  division.homes.assign(graph.nodes(), {0});
  division.owners.assign(graph.nodes(), -1);
  division.placed_by_hand = true;
  return replicate(graph, borders, one, division);
}

}  // namespace

// One replica computes all shards one after the other, on one device or on those that the graph's
// constraints name.
Strategy single_strategy() {
  Strategy strategy;
  strategy.name = "single";
  strategy.description = "one device runs all shards, or those that the graph's constraints name";
  strategy.apply = apply_single;
  strategy.moves_rows = [](const DivisionOptions&) { return true; };
  strategy.one_replica = true;
  return strategy;
}

}  // namespace leat
