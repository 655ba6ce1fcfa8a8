#include "daemon/training/training_rules.h"

#include <algorithm>

#include "devices/base/text.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

TrainingRules training_rules(const Job& job, int64_t workers) {
  TrainingRules rules;
  // The spec of the job excludes that both hold.
  if (job.asynchronous()) rules.mode = StepMode::apart;
  if (job.has_quorum()) rules.mode = StepMode::quorum;
  const Strategy& strategy = strategy_of(job);
  rules.replicated = strategy.replicates_variables;
  rules.spreads_variables = strategy.uses_servers;
  rules.one_replica = strategy.one_replica;
  // Hosts that step by themselves may be more than the shards; in a common graph each needs one.
  rules.common_shards = rules.has_common_steps() ? job.shards : std::max(job.shards, workers);
  return rules;
}

std::string quorum_note(const Job& job, int64_t dropped_rows) {
  const bool requeue = job.parameter_server.dropped_samples == Job::DroppedSamples::requeue;
  return cat("quorum ", job.parameter_server.replicas_to_aggregate, " of ", job.num_workers, ": ",
             dropped_rows, " rows came too late for their step, and were ",
             requeue ? "computed again" : "dropped", "; the weights depend on timing");
}

}  // namespace leat
