// The parts of a training that all of its classes use.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "daemon/hosts/host_group.h"
#include "daemon/spec/job.h"
#include "daemon/training/train_options.h"
#include "daemon/training/training_input.h"
#include "daemon/training/training_length.h"
#include "daemon/training/training_rules.h"
#include "devices/base/clock.h"
#include "devices/base/files.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// Trainer owns it, and it outlives the classes that refer to it. Nothing in it changes.
struct TrainingParts {
  // The references are to objects of the trainer or of its caller.
  const Catalogue& catalogue;
  Files& files;
  const Clock& clock;
  const Job& job;
  const TrainOptions& options;
  HostGroup& hosts;
  const TrainingInput& input;
  // The number of hosts that the job trains on; an elastic job may have fewer than it asks for.
  int64_t workers = 1;
  // Derived from the job and the rows of its training data.
  TrainingLength length;
  // Derived from the job's strategy.
  TrainingRules rules;
  // The spec of the training graph. Evaluation and the search for NaN begin with a copy of it.
  TrainSpec spec;

  // True if the hosts leave out the update of a step whose loss or updates are not finite.
  bool skips() const { return job.on_nan == Job::OnNan::skip || job.scales_loss_dynamically(); }
  std::string metrics_path() const { return options.folder + "/metrics.jsonl"; }

  // Asks the owner of the training now; the answer may change from call to call. False without
  // TrainOptions::yields, as in `leat train`.
  bool asked_to_yield() const { return options.yields && options.yields() != TrainYield::no; }
  // A checkpoint is written before the training yields. A variable that only one host holds is
  // always saved: another host may take the place of that one. REQUIRES: options.yields.
  bool saves_to_yield() const { return options.yields() == TrainYield::saved || !rules.replicated; }
};

// The parts of a training of the job on these hosts. All arguments outlive the result.
TrainingParts training_parts(const Catalogue& catalogue, Files& files, const Job& job,
                             const TrainOptions& options, HostGroup& hosts,
                             const TrainingInput& input);

// The same of what trains nothing: of no length, with `data` in the place of the training's.
TrainingParts evaluation_parts(const Catalogue& catalogue, Files& files, const Job& job,
                               const TrainOptions& options, HostGroup& hosts,
                               const TrainingInput& input, const FoundDataset& data);

// The number of hosts: a cluster may train an elastic job on fewer workers than the job asks for.
int64_t workers_of_training(const Job& job, const TrainOptions& options);

// The clock of the machine. It lives as long as the process.
const Clock& training_clock();

// A step that takes long is not a reason to give up: on a cluster the master decides whether a host
// still computes (daemon/jobs/membership.h). The deadlines of waits are therefore this far away.
inline std::chrono::steady_clock::time_point last_moment() {
  constexpr auto kPatience = std::chrono::hours(30 * 24);
  return std::chrono::steady_clock::now() + kPatience;
}
// A wait checks this often whether the training is to stop or to yield.
inline constexpr auto kStopPoll = std::chrono::milliseconds(100);

}  // namespace leat
