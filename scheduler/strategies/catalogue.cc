// Every strategy of this build; adding one is a line here.
#include "devices/base/text.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

std::vector<Strategy> all_strategies() {
  const auto always = [](const DivisionOptions&) { return true; };
  return {
      {"single", "one device runs all shards, or those that the graph's constraints name",
       apply_single, always},
      {"mirrored",
       "every worker holds the variables and a block of the shards; gradients are all-reduced",
       apply_mirrored, always},
      {"parameter_server",
       "each variable is on one server, which sums and applies its gradients; every worker has a "
       "block of the shards",
       apply_parameter_server,
       // Replicas of a quorum read copies, and leave whole gradients to be summed: see
       // ops/definitions/quorum.cc.
       [](const DivisionOptions& options) { return options.quorum.replicas_to_aggregate == 0; }},
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
