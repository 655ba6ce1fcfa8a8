// Data parallelism with all variables on the first worker: the others get their values in each step,
// and send it their gradients.
#include "scheduler/strategies/replicate.h"

namespace leat {
namespace {

Result<Graph> apply_central_storage(const Graph& graph, Borders& borders,
                                    const StrategyOptions& options) {
  LEAT_RETURN_IF_ERROR(check_shards(options));
  Division division;
  division.holders = blocks_of_shards(options);
  division.homes.assign(graph.nodes(), {0});
  division.owners.assign(graph.nodes(), 0);
  return replicate(graph, borders, options, division);
}

}  // namespace

// The first worker sums the gradients of all shards and applies them. The bits are those of
// mirrored.
Strategy central_storage_strategy() {
  Strategy strategy;
  strategy.name = "central_storage";
  strategy.description =
      "the first worker holds the variables, and sums and applies gradients; every worker has a "
      "block of the shards";
  strategy.apply = apply_central_storage;
  strategy.moves_rows = [](const DivisionOptions&) { return true; };
  return strategy;
}

}  // namespace leat
