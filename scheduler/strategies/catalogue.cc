// Every strategy of this build; adding one is a line here and its declaration.
#include "devices/base/text.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

Strategy single_strategy();
Strategy mirrored_strategy();
Strategy parameter_server_strategy();
Strategy central_storage_strategy();

const std::vector<Strategy>& all_strategies() {
  static const std::vector<Strategy> strategies = {
      single_strategy(),
      mirrored_strategy(),
      parameter_server_strategy(),
      central_storage_strategy(),
  };
  return strategies;
}

Result<Strategy> find_strategy(std::string_view name) {
  // The names are for the message about an unknown one.
  std::vector<std::string> names;
  for (const Strategy& strategy : all_strategies()) {
    if (strategy.name == name) return strategy;
    names.push_back(strategy.name);
  }
  return invalid_argument(
      cat("strategy '", name, "': expected one of ", join(names, ", "), did_you_mean(name, names)));
}

}  // namespace leat
