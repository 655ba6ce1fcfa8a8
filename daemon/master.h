// The master: compiles graphs for the workers that it has, and steps the plans on them. It never
// touches a tensor that crosses workers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/worker_link.h"
#include "devices/base/status.h"
#include "devices/tensor.h"
#include "scheduler/compile/compile.h"
#include "scheduler/train_graph.h"

namespace leat {

struct SessionJob;

struct PlanOptions {
  std::string name = "plan";
  std::string strategy = "single";
  int shards = 1;
  int workers = 1;  // the first so many
  int servers = 1;  // parameter servers; as StrategyOptions says
  VariableServers variable_servers = {};
  int asynchronous_worker = -1;
  Quorum quorum = {};
  // As CompileRequest says.
  bool recoverable = false;
  bool skips_not_finite = false;
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
  friend class Master;
  MasterRun() = default;
  std::shared_ptr<const Plan> plan_;
  uint64_t first_step_ = 0;
  std::vector<std::unique_ptr<PartitionRun>> runs_;  // by partition
  std::vector<uint32_t> fetching_;  // partitions with fetches; all if there are none
};

// Threads: any.
class Master {
 public:
  // The workers outlive the master.
  explicit Master(std::vector<WorkerLink*> workers) : workers_(std::move(workers)) {}

  Result<std::shared_ptr<const Plan>> compile(JobGraph graph, const PlanOptions& options);
  // Registers a plan on its workers. `job` names the state that it shares with the job's other
  // runs.
  Result<std::unique_ptr<MasterRun>> run(std::shared_ptr<const Plan> plan, const std::string& job,
                                         const RunOptions& options);
  // What the sessions of a job share; made when it is first asked for.
  std::shared_ptr<SessionJob> session_job(const std::string& job);
  const std::vector<WorkerLink*>& workers() const { return workers_; }

 private:
  WorkerLink* worker_of(const std::string& device) const;
  Status prepare(MasterRun& run, const std::string& job);
  std::vector<WorkerLink*> workers_;
  std::mutex registering_;  // a link takes one call at a time
  uint64_t runs_ = 0;       // made so far
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SessionJob>> session_jobs_;
};

}  // namespace leat
