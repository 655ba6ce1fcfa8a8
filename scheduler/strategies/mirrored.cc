// Synchronous data parallelism with all variables on every worker: since every worker applies the
// same sums to the same values, they stay equal.
#include <numeric>

#include "scheduler/strategies/replicate.h"

namespace leat {

Result<Graph> apply_mirrored(const Graph& graph, Borders& borders, const StrategyOptions& options) {
  std::vector<int> all(options.devices.size());
  std::iota(all.begin(), all.end(), 0);
  CommonWork common;
  common.homes.assign(graph.nodes(), all);
  common.owners.assign(graph.nodes(), -1);
  return replicate(graph, borders, options, common);
}

}  // namespace leat
