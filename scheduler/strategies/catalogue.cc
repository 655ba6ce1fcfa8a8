// Every strategy of this build; adding one is a line here.
#include "devices/base/text.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

std::vector<Strategy> all_strategies() {
  return {
      {"single", "one device runs all shards, or those that the graph's constraints name",
       apply_single},
      {"mirrored",
       "every worker holds the variables and a block of the shards; gradients are all-reduced",
       apply_mirrored},
      {"parameter_server",
       "each variable is on one server, which sums and applies its gradients; every worker has a "
       "block of the shards",
       apply_parameter_server},
  };
}

Result<Strategy> find_strategy(std::string_view name) {
  std::vector<std::string> names;
  for (Strategy& strategy : all_strategies()) {
    if (strategy.name == name) return strategy;
    names.push_back(strategy.name);
  }
  return invalid_argument(
      cat("strategy '", name, "': expected one of ", join(names, ", "), did_you_mean(name, names)));
}

}  // namespace leat
