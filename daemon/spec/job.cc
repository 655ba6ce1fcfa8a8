#include "daemon/spec/job.h"

#include <algorithm>

#include "scheduler/strategies/strategy.h"

namespace leat {

std::vector<const LossSpec*> Job::losses() const {
  std::vector<const LossSpec*> terms{&loss};
  for (const LossSpec& term : more_losses) terms.push_back(&term);
  return terms;
}

const Strategy& strategy_of(const Job& job) {
  // An unknown strategy is an error of the job file, but the other keys are still read with it.
  static const Strategy kUnknown;
  const std::vector<Strategy>& all = all_strategies();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Strategy& each) { return each.name == job.strategy; });
  return found == all.end() ? kUnknown : *found;
}

bool Job::uses_servers() const { return strategy_of(*this).uses_servers; }

}  // namespace leat
