// The steps of a training as the training loop counts them: the loop does not see whether all hosts
// do each step together, or each host does steps of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/training/training_parts.h"

namespace leat {

// Threads: one.
class TrainingSteps {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  virtual ~TrainingSteps() = default;

  // The number of steps that may be allowed beyond the last one consumed: their fetches are kept.
  virtual int64_t window() const = 0;
  // Allows the steps below `limit`. REQUIRES: at most window() beyond the last one consumed.
  virtual void extend(int64_t limit) = 0;
  // Takes back the steps that have not begun. Returns the limit that is left: every host does the
  // steps below it, and stops there.
  virtual Result<int64_t> hold() = 0;
  // As in PlanRun. Only where all hosts come to the state after each step.
  virtual bool snapshot_in_passing(
      int64_t /*step*/, const std::map<std::string, std::vector<std::string>>& /*names*/) {
    return false;
  }
  virtual bool finished_everywhere(int64_t /*step*/) const { return false; }
  // Returns when the fetches of `step` are there. Errors: the failure of the run, or
  // deadline_exceeded with the hosts that wait and their peers.
  virtual Status wait(int64_t step, Deadline deadline) = 0;
  // Returns true when wait(step) would return at once; false at `until`.
  virtual bool settled(int64_t step, Deadline until) = 0;
  // Returns when every host has finished all steps that are allowed.
  virtual Status drain(Deadline deadline) = 0;
  // All steps below the result are finished.
  virtual int64_t finished() = 0;
  // REQUIRES: step < finished(), and no step after it was consumed.
  virtual double fetched_scalar(uint32_t i, int64_t step) = 0;
  // The replicas that were lost since the last call while the steps continued, for people.
  virtual std::vector<std::string> take_losses() { return {}; }
  virtual void abort(const Status& cause) = 0;
  // See PlanRun::add_input().
  virtual void add_input(std::map<std::string, InputNumbers>& sums) const = 0;
  // See PlanRun::profile().
  virtual std::string profile() = 0;
};

// All hosts do step n together. The run begins at `first_step`.
std::unique_ptr<TrainingSteps> steps_together(std::unique_ptr<PlanRun> run, int64_t first_step);

// Each run does steps of its own, as fast as it can; step n is the n-th step that any of them
// finished. A slow run is allowed fewer steps, so it delays the others only at the limit.
// REQUIRES: the runs' steps begin at `first_step`.
std::unique_ptr<TrainingSteps> steps_apart(std::vector<std::unique_ptr<PlanRun>> runs,
                                           int64_t first_step);

// The run `closing` closes each step with the first replicas that are ready: see Quorum. The runs
// of the replicas draw their step numbers themselves, and may be behind when all steps are
// finished. The steps continue without lost replicas while at least `needed` are left. REQUIRES:
// the runs' steps begin at `first_step`.
std::unique_ptr<TrainingSteps> steps_of_quorum(std::unique_ptr<PlanRun> closing,
                                               std::vector<std::unique_ptr<PlanRun>> replicas,
                                               size_t needed, int64_t first_step);

// Starts the runs of the job's training plans (see JobPlans::compile_training()) after `done` steps
// of the job. REQUIRES: the variables are on the hosts.
Result<std::unique_ptr<TrainingSteps>> start_steps(
    const TrainingParts& parts, const std::vector<std::shared_ptr<const Plan>>& plans,
    int64_t done);

}  // namespace leat
