#include "daemon/training/training_rules.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

TrainingRules training_rules(const Job& job, int64_t workers) {
  TrainingRules rules;
  if (job.asynchronous()) rules.mode = StepMode::apart;
  if (job.has_quorum()) rules.mode = StepMode::quorum;
  rules.replicated = job.strategy == Job::Strategy::mirrored;
  rules.spreads_variables = job.strategy == Job::Strategy::parameter_server;
  rules.one_replica = job.strategy == Job::Strategy::single;
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
