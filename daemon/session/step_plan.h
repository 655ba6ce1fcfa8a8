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

// The plan and the variables that its steps touch. The plan cache owns it; all runs of the plan
// share it.
struct StepPlan {
  std::shared_ptr<const Plan> plan;
  // Each variable once, with whether the step writes it. Empty if steps take no ticket: they are
  // not isolated, they touch no variable, or they touch a queue. A step that may wait on a queue
  // for another step must not hold a ticket that the other one needs.
  std::vector<VariableUse> uses;
};

// The options of one plan, which the session derives from its settings and from the signature.
struct StepPlanOptions {
  PlanOptions plan;
  // As Signature::isolated: whether steps of the plan take tickets.
  bool isolated = true;
};

// `graph` is validated; `feeds` passed check_feeds() against it. State goes where the job's earlier
// plans have put it. REQUIRES: job.compiling is held. The function prunes the graph to the part
// between the borders, fixes the fed shapes, and compiles it for the hosts. Blocks for the time of
// the compilation.
//
// With the strategy "single" and one shard, a variable stays on the device where the first plan of
// the job put it; failed_precondition if the graph constrains it to another device. Other
// strategies place variables themselves. Further errors are those of prune() and
// HostGroup::compile(). When it returns an error, `job` is as before.
Result<StepPlan> make_step_plan(HostGroup& hosts, SessionJob& job, const Graph& graph,
                                Borders borders, std::span<const Tensor> feeds,
                                const StepPlanOptions& options);

}  // namespace leat
