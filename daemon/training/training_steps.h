// The steps of a training as its trainer counts them, whether all workers do each of them together
// or each worker does its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"

namespace leat {

// Threads: one.
class TrainingSteps {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  virtual ~TrainingSteps() = default;

  // Steps that may be allowed beyond those that were consumed: their fetches are kept.
  virtual int64_t window() const = 0;
  // Allows the steps below `limit`. REQUIRES: at most window() beyond the last one consumed.
  virtual void extend(int64_t limit) = 0;
  // Takes back what is allowed beyond the steps that are begun; the limit that is left, which every
  // worker comes to, and stays at.
  virtual Result<int64_t> hold() = 0;
  // As PlanRun has them, where the state after a step is one that all workers come to.
  virtual bool snapshot_in_passing(
      int64_t /*step*/, const std::map<std::string, std::vector<std::string>>& /*names*/) {
    return false;
  }
  virtual bool finished_everywhere(int64_t /*step*/) const { return false; }
  // Returns when `step` is finished, as far as its fetches go, or with the failure, or
  // deadline_exceeded with who waits for whom.
  virtual Status wait(int64_t step, Deadline deadline) = 0;
  // True when wait(step) would return at once, at the latest at `until`.
  virtual bool settled(int64_t step, Deadline until) = 0;
  // Returns when every worker has finished all steps that are allowed.
  virtual Status drain(Deadline deadline) = 0;
  // The steps below are finished.
  virtual int64_t finished() = 0;
  // REQUIRES: step < finished(), and no step after it was consumed.
  virtual double fetched_scalar(uint32_t i, int64_t step) = 0;
  // What the steps have gone on without since the last call, for people.
  virtual std::vector<std::string> take_losses() { return {}; }
  virtual void abort(const Status& cause) = 0;
  // See PlanRun::profile().
  virtual std::string profile() = 0;
};

// All workers do step n together. `first_step` is where the run begins.
std::unique_ptr<TrainingSteps> steps_together(std::unique_ptr<PlanRun> run, int64_t first_step);

// Each run does steps of its own, as fast as it can; the n-th step is the n-th that any of them
// finished. Those who are slow are allowed fewer steps, and hold nobody up before the limit.
// REQUIRES: the runs' steps begin at `first_step`.
std::unique_ptr<TrainingSteps> steps_apart(std::vector<std::unique_ptr<PlanRun>> runs,
                                           int64_t first_step);

// The steps that `closing` does, each by the first replicas that come: see Quorum. The replicas'
// runs draw their steps themselves, and may be behind when all steps are finished. One whose worker
// is lost is missed only when fewer than `needed` are left.
// REQUIRES: the runs' steps begin at `first_step`.
std::unique_ptr<TrainingSteps> steps_of_quorum(std::unique_ptr<PlanRun> closing,
                                               std::vector<std::unique_ptr<PlanRun>> replicas,
                                               size_t needed, int64_t first_step);

}  // namespace leat
