// The hosts that a job runs on: compiles graphs for them, and starts the plans there. The group
// never touches a tensor that crosses hosts.
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

struct PlanOptions : CompileOptions {
  int workers = 1;  // the plan is for the first so many hosts
};

// Threads: any.
class HostGroup {
 public:
  explicit HostGroup(std::vector<std::shared_ptr<HostHandle>> hosts);

  Result<std::shared_ptr<const Plan>> compile(JobGraph graph, const PlanOptions& options);
  // Registers a plan on its hosts. `job` names the state that it shares with the job's other runs.
  // The runs end before the group does.
  Result<std::unique_ptr<PlanRun>> run(std::shared_ptr<const Plan> plan, const std::string& job,
                                       const RunOptions& options);
  // What the sessions of a job share; made when it is first asked for.
  std::shared_ptr<SessionJob> session_job(const std::string& job);
  const std::vector<HostHandle*>& hosts() const { return hosts_; }

 private:
  HostHandle* host_of(const std::string& device) const;
  Status prepare(const std::shared_ptr<const Plan>& plan, const std::string& job,
                 std::vector<std::unique_ptr<PartitionRun>>& partitions);

  const std::vector<std::shared_ptr<HostHandle>> owned_;
  std::vector<HostHandle*> hosts_;  // those of owned_
  std::mutex registering_;          // a handle takes one call at a time
  uint64_t runs_ = 0;               // made so far
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SessionJob>> session_jobs_;
};

}  // namespace leat
