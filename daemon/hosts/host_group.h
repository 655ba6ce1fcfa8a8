// The hosts of a job. A HostGroup compiles graphs for them and starts the plans on them. Tensors
// that go from host to host do not pass through it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/hosts/host_handle.h"
#include "daemon/hosts/plan_run.h"
#include "devices/base/status.h"
#include "scheduler/compile/compile.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

struct SessionJob;

// The options of HostGroup::compile().
struct PlanOptions : CompileOptions {
  int workers = 1;  // the plan is for the first `workers` hosts
};

// Owns its handles together with others that hold them. Threads: any.
class HostGroup {
 public:
  explicit HostGroup(std::vector<std::shared_ptr<HostHandle>> hosts);

  // Compiles a graph for the first `options.workers` hosts. invalid_argument if there are fewer.
  Result<std::shared_ptr<const Plan>> compile(JobGraph graph, const PlanOptions& options);
  // Gives each host its partition of a plan and connects the partitions; blocks until all of them
  // can step. `job` names the state that the run shares with the job's other runs. The runs must
  // end before the group does. `unavailable` if no host has a device of the plan; otherwise the
  // first failure of a host.
  Result<std::unique_ptr<PlanRun>> run(std::shared_ptr<const Plan> plan, const std::string& job,
                                       const RunOptions& options);
  // Returns the state that the sessions of a job share. The first call for a job makes it.
  std::shared_ptr<SessionJob> session_job(const std::string& job);
  const std::vector<HostHandle*>& hosts() const { return hosts_; }

 private:
  Status prepare(const std::shared_ptr<const Plan>& plan, const std::string& job,
                 std::vector<std::unique_ptr<PartitionRun>>& partitions);

  const std::vector<std::shared_ptr<HostHandle>> owned_;
  std::vector<HostHandle*> hosts_;  // the handles in owned_
  std::mutex registering_;          // because a handle takes one call at a time
  uint64_t runs_ = 0;               // the number of the last run
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SessionJob>> session_jobs_;
};

}  // namespace leat
