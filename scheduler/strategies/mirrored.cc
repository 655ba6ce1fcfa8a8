// Synchronous data parallelism with all variables on every worker: since every worker applies the
// same sums to the same values, they stay equal.
#include <numeric>

#include "scheduler/strategies/replicate.h"

namespace leat {
namespace {

Result<Graph> apply_mirrored(const Graph& graph, Borders& borders, const StrategyOptions& options) {
  LEAT_RETURN_IF_ERROR(check_shards(options));
  std::vector<int> all(options.workers.size());
  std::iota(all.begin(), all.end(), 0);
  Division division;
  division.holders = blocks_of_shards(options);
  division.homes.assign(graph.nodes(), all);
  division.owners.assign(graph.nodes(), -1);
  return replicate(graph, borders, options, division);
}

}  // namespace

// Every device holds all variables and a block of the shards; gradients are summed over all shards.
Strategy mirrored_strategy() {
  Strategy strategy;
  strategy.name = "mirrored";
  strategy.description =
      "every worker holds the variables and a block of the shards; gradients are all-reduced";
  strategy.apply = apply_mirrored;
  strategy.moves_rows = [](const DivisionOptions&) { return true; };
  strategy.replicates_variables = true;
  return strategy;
}

}  // namespace leat
