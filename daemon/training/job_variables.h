// The variables of a job on its hosts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/checkpoint/manifest.h"
#include "daemon/hosts/host_handle.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/training_parts.h"

namespace leat {

// A step that the memory of hosts holds: the variables as they are after that many steps.
struct HeldStep {
  int64_t step = 0;
  std::string holder;                           // one of the hosts, for people
  std::vector<bool> holds;                      // by host: all of its variables, at that step
  std::map<int64_t, std::vector<double>> rows;  // by step, counted from 0: its fetches
};

// Threads: one. All calls block.
class JobVariables {
 public:
  // `parts` and `plans` outlive it. REQUIRES: the plans are compiled before the first call.
  JobVariables(const TrainingParts& parts, const JobPlans& plans) : parts_(parts), plans_(plans) {}

  // Makes the variables of the state before step `step` on every host that has none yet. With
  // `fill` it computes their first values; at step 0 it then loads the weights that the job names.
  Status make(bool fill, int64_t step);
  // Writes each value to all hosts that hold its variable.
  Status write(const Variables& values, Restore what, std::optional<uint64_t> step);
  // Reads each variable from the first host that holds it.
  Result<Variables> read();

  // The last step of at least `least` from which all hosts can continue: the hosts that are whole
  // hold all variables of it, and the metrics up to it are in the log or on a host. Nothing if
  // there is none.
  Result<std::optional<HeldStep>> find_held(int64_t least);
  // Copies the variables from the hosts that hold the step to the hosts that hold another or none.
  Status copy(const HeldStep& held);

 private:
  Status clear();
  HeldStep held_at(int64_t step, const std::vector<Held>& held, std::set<std::string>& there) const;
  Result<bool> has_metrics(const HeldStep& held, int64_t least) const;

  const TrainingParts& parts_;
  const JobPlans& plans_;
};

}  // namespace leat
