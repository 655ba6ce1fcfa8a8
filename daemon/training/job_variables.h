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
  // The name of a host that holds it, for messages.
  std::string holder;
  // By host, in the order of the group: true if it has all of its variables as they were after that
  // step.
  std::vector<bool> holds;
  // The fetches of the last steps, by step, counted from 0. The metrics log may lack these rows.
  std::map<int64_t, std::vector<double>> rows;
};

// Trainer owns it. The values pass through this process, except those of a checkpoint that hosts
// write themselves. REQUIRES for all calls that read or write: no step is in flight.
// Threads: one. All calls block.
class JobVariables {
 public:
  // `parts` and `plans` outlive it. REQUIRES: the plans are compiled before the first call.
  JobVariables(const TrainingParts& parts, const JobPlans& plans) : parts_(parts), plans_(plans) {}

  // Makes the variables of the state before step `step` on every host that has none yet. With
  // `fill` it computes their first values; at step 0 it then loads the weights that the job names.
  // The initial values follow from the job's seed. With TrainOptions::survivors and at step 0,
  // variables of an earlier attempt become zero first, so that each attempt gives the same weights.
  Status make(bool fill, int64_t step);
  // For people: what make() did with the weights that the job names, if that is not all of it.
  const std::vector<std::string>& notes() const { return notes_; }
  // Writes each value to all hosts that hold its variable. `step`: the number of steps after which
  // the variables had these values; nothing if they belong to no step. A name that no host holds
  // goes to the first host, which refuses it.
  Status write(const Variables& values, Restore what, std::optional<uint64_t> step);
  // Reads each variable from the first host that holds it; a job whose variables are replicated is
  // read from one host alone.
  Result<Variables> read();
  // The same for a caller that writes to none of them, and lets no step run while they live: where
  // a host is in this process, the tensors are its variables' own memory.
  Result<Variables> lend();

  // The last step of at least `least` from which all hosts can continue: the hosts that are whole
  // hold all variables of it, and the metrics up to it are in the log or on a host. Nothing if
  // there is none, and always without TrainOptions::survivors and where hosts have no common steps.
  // A host that does not answer counts as holding nothing. Step 0 is no progress and never found.
  Result<std::optional<HeldStep>> find_held(int64_t least);
  // Copies the variables from the hosts that hold the step to the hosts that hold another or none.
  // Reads each value once, and only values that some host lacks.
  Status copy(const HeldStep& held);

 private:
  // Sets what hosts hold of an earlier attempt to zero.
  Status clear();
  Status load_weights();
  Result<Variables> gather(bool lends);
  HeldStep held_at(int64_t step, const std::vector<Held>& held, std::set<std::string>& there) const;
  Result<bool> has_metrics(const HeldStep& held, int64_t least) const;

  const TrainingParts& parts_;
  const JobPlans& plans_;
  std::vector<std::string> notes_;
};

}  // namespace leat
