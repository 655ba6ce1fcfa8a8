// The master: compiles graphs for the workers that it has, and steps the plans on them. It never
// touches a tensor that crosses workers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/worker_link.h"
#include "devices/base/status.h"
#include "devices/tensor.h"
#include "scheduler/compile/compile.h"
#include "scheduler/train_graph.h"

namespace leat {

struct PlanOptions {
  std::string name = "plan";
  std::string strategy = "single";
  int shards = 1;
  int workers = 1;  // the first so many
};

// One plan being stepped on all its workers. Ends (aborted, if need be) when destroyed.
// Threads: one.
class MasterRun {
 public:
  ~MasterRun();

  // Copies a value to every partition that reads feed i. REQUIRES: all allowed steps are finished.
  Status feed(uint32_t i, const Tensor& value);
  // Allows steps below `limit`.
  void extend(uint64_t limit);
  // Returns when the workers that fetch have finished `step` (all workers, with `all`), or with the
  // run's failure, or deadline_exceeded with who waits for whom.
  Status wait(uint64_t step, std::chrono::steady_clock::time_point deadline, bool all = false);
  // Steps that every fetching worker has finished: [first_step, finished()).
  uint64_t finished() const;
  // REQUIRES: step < finished(), and one of the last kFetchDepth.
  Tensor fetched(uint32_t i, uint64_t step);
  double fetched_scalar(uint32_t i, uint64_t step);
  void abort(const Status& cause);
  // Where the steps' time went on every worker, for people: see profile_text(). "" without
  // RunOptions::profile. REQUIRES: all allowed steps are finished.
  std::string profile();
  // Who waits for what on every worker, for people.
  std::string waits_for();

 private:
  friend class Master;
  MasterRun() = default;
  std::shared_ptr<const Plan> plan_;
  uint64_t first_step_ = 0;
  std::vector<std::unique_ptr<PartitionRun>> runs_;  // by partition
  std::vector<uint32_t> fetching_;  // partitions with fetches; all if there are none
};

class Master {
 public:
  // The workers outlive the master.
  explicit Master(std::vector<WorkerLink*> workers) : workers_(std::move(workers)) {}

  Result<std::shared_ptr<const Plan>> compile(const JobGraph& graph, const PlanOptions& options);
  // Registers a plan on its workers. `job` names the state that it shares with the job's other
  // runs.
  Result<std::unique_ptr<MasterRun>> run(std::shared_ptr<const Plan> plan, const std::string& job,
                                         const RunOptions& options);
  const std::vector<WorkerLink*>& workers() const { return workers_; }

 private:
  WorkerLink* worker_of(const std::string& device) const;
  std::vector<WorkerLink*> workers_;
};

}  // namespace leat
