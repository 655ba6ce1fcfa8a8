// A plan while all its hosts step it.
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

// One run of a plan on all its hosts. Its destructor ends the run, and aborts it if necessary.
// Calls that begin something on a host do not wait for it; calls that return a Status or a value
// block until the hosts have answered. Threads: one.
class PlanRun {
 public:
  // `partitions` are in the order of the plan's. The first step has the number `first_step`.
  PlanRun(std::shared_ptr<const Plan> plan, uint64_t first_step,
          std::vector<std::unique_ptr<PartitionRun>> partitions);
  ~PlanRun();

  // Connects the partitions with each other. Blocks until each of them is ready to step, or returns
  // the first failure.
  Status connect(const RunOptions& options);

  // Copies a value to every partition that reads feed `i`. REQUIRES: all allowed steps are
  // finished.
  Status feed(uint32_t i, const Tensor& value);
  // Allows the steps below `limit` on all hosts.
  void extend(uint64_t limit);
  // Makes all hosts stop soon, after the same step. Returns their limit: they run the steps below
  // it.
  Result<uint64_t> hold();
  // Orders snapshots of variables while the run continues, `names` by task: see PartitionRun.
  // Returns false if some of the hosts refuse, have no partition, or write variables in several:
  // those do not pass a step at the same time. REQUIRES: no step from `step` on is allowed.
  bool snapshot_in_passing(uint64_t step,
                           const std::map<std::string, std::vector<std::string>>& names);
  // True if all hosts have finished the steps below `step`.
  bool finished_everywhere(uint64_t step) const;
  // Returns how far a limit may be beyond the first step whose fetches the caller still needs.
  uint64_t window() const;
  // Changes the number of the next step, as kernels see it, to `step`. REQUIRES: all allowed steps
  // are finished.
  void renumber(uint64_t step);
  // Blocks until the hosts that fetch (all hosts, with `all`) have finished `step`. Returns the
  // run's failure, or deadline_exceeded with the reasons why hosts wait.
  Status wait(uint64_t step, std::chrono::steady_clock::time_point deadline, bool all = false);
  // True if wait(step) would return at once. Blocks until that holds, but not beyond `until`.
  bool settled(uint64_t step, std::chrono::steady_clock::time_point until) const;
  // Returns the end of the steps that every fetching host has finished: [first_step, finished()).
  uint64_t finished() const;
  // Returns a copy of fetch `i` of a step. REQUIRES: step < finished(), and less than window()
  // below the limit.
  Tensor fetched(uint32_t i, uint64_t step);
  // Returns a fetch of one f32 or f64 element.
  double fetched_scalar(uint32_t i, uint64_t step);
  // Fails the run on all hosts. Only the first cause counts.
  void abort(const Status& cause);
  // Ends the run: blocks until no host computes anything of it. REQUIRES: it was aborted, or all
  // allowed steps are finished.
  void stop();
  // The number of partitions.
  size_t partitions() const { return runs_.size(); }
  // The partitions that fetch; all partitions if there are no fetches.
  const std::vector<uint32_t>& fetching() const { return fetching_; }
  // The timeline of one partition: at n when n steps of the run are finished there; it fails when
  // the run fails.
  Timeline& finished_on(size_t partition) { return runs_[partition]->finished(); }
  // Returns where the steps' time went on every host, for people: see profile_text(). "" without
  // RunOptions::profile. REQUIRES: all allowed steps are finished.
  std::string profile();
  // Adds the numbers about the input of each host to `sums`, by the host's task.
  void add_input(std::map<std::string, InputNumbers>& sums) const;
  // Describes what each host waits for, for people.
  std::string waits_for();

 private:
  const std::shared_ptr<const Plan> plan_;
  const uint64_t first_step_;
  const std::vector<std::unique_ptr<PartitionRun>> runs_;  // by partition
  std::vector<uint32_t> fetching_;  // partitions with fetches; all if there are none
};

}  // namespace leat
