// The plan of a signature for one set of feed shapes, and what a session has to know of it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/hosts/session_job.h"
#include "daemon/session/signature.h"
#include "devices/base/status.h"

namespace leat {

struct StepPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<VariableUse> uses;  // variables, each once; empty if steps take no ticket
};

struct StepPlanOptions {
  PlanOptions plan;
  bool isolated = true;
};

// `graph` is validated; `feeds` passed check_feeds() against it. State goes where the job's earlier
// plans have put it. REQUIRES: job.compiling is held.
Result<StepPlan> make_step_plan(HostGroup& hosts, SessionJob& job, const Graph& graph,
                                Borders borders, std::span<const Tensor> feeds,
                                const StepPlanOptions& options);

}  // namespace leat
