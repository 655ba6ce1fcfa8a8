// One plan while it is stepped on all of its hosts.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_handle.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

// One plan being stepped on all its hosts. It ends, aborted if need be, when it is destroyed.
// Threads: one.
class PlanRun {
 public:
  // `partitions` are the plan's, in its order; steps are numbered from `first_step`.
  PlanRun(std::shared_ptr<const Plan> plan, uint64_t first_step,
          std::vector<std::unique_ptr<PartitionRun>> partitions);
  ~PlanRun();

  // Connects the partitions with each other. Returns when each of them is ready to step, or the
  // first failure.
  Status connect(const RunOptions& options);

  // Copies a value to every partition that reads feed i. REQUIRES: all allowed steps are finished.
  Status feed(uint32_t i, const Tensor& value);
  // Allows steps below `limit`.
  void extend(uint64_t limit);
  // Brings all workers to the end of one step, soon, and no further: the limit that they have then.
  Result<uint64_t> hold();
  // Has the workers copy variables in passing, `names` by device: see PartitionRun. False if some
  // of them do not, or have no partition. REQUIRES: no step from `step` on is allowed.
  bool snapshot_in_passing(uint64_t step,
                           const std::map<std::string, std::vector<std::string>>& names);
  // Have all workers finished the steps below?
  bool finished_everywhere(uint64_t step) const;
  // How far a limit may be beyond the first step whose fetches are still wanted.
  uint64_t window() const;
  // The next step calls itself `step`, wherever a kernel asks. REQUIRES: all allowed steps are
  // finished.
  void renumber(uint64_t step);
  // Returns when the workers that fetch have finished `step` (all workers, with `all`), or with the
  // run's failure, or deadline_exceeded with who waits for whom.
  Status wait(uint64_t step, std::chrono::steady_clock::time_point deadline, bool all = false);
  // True when wait(step) would return at once, at the latest at `until`.
  bool settled(uint64_t step, std::chrono::steady_clock::time_point until) const;
  // Steps that every fetching worker has finished: [first_step, finished()).
  uint64_t finished() const;
  // REQUIRES: step < finished(), and less than window() below the limit.
  Tensor fetched(uint32_t i, uint64_t step);
  double fetched_scalar(uint32_t i, uint64_t step);
  void abort(const Status& cause);
  // Returns when no worker computes anything of it any more. REQUIRES: it was aborted, or all
  // allowed steps are finished.
  void stop();
  // By partition: at n when n steps of the run are finished there; fails when the run fails.
  size_t partitions() const { return runs_.size(); }
  // The partitions that fetch; all if there are no fetches.
  const std::vector<uint32_t>& fetching() const { return fetching_; }
  Timeline& finished_on(size_t partition) { return runs_[partition]->finished(); }
  // Where the steps' time went on every worker, for people: see profile_text(). "" without
  // RunOptions::profile. REQUIRES: all allowed steps are finished.
  std::string profile();
  // Who waits for what on every worker, for people.
  std::string waits_for();

 private:
  const std::shared_ptr<const Plan> plan_;
  const uint64_t first_step_;
  const std::vector<std::unique_ptr<PartitionRun>> runs_;  // by partition
  std::vector<uint32_t> fetching_;  // partitions with fetches; all if there are none
};

}  // namespace leat
