// Compiles a graph to a plan.
#pragma once

#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/plan_device.h"
#include "scheduler/graph/rewrite.h"
#include "scheduler/plan/plan.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

// The properties of a plan, apart from the graph and the devices.
struct CompileOptions : DivisionOptions {
  std::string name = "plan";
  std::string strategy = "single";
  // Each device writes to variables when nothing of the step can wait or fail any more, so that a
  // run that fails leaves whole steps: see ops/state/commits.h. Not every graph allows it;
  // Plan::commits() says whether this one did.
  bool recoverable = false;
  // A step whose numbers are not finite writes nothing: see guard_writes(). The plan has one fetch
  // more.
  bool skips_not_finite = false;
  bool tf32 = false;  // Partition::tf32 of all partitions
};

struct CompileRequest : CompileOptions {
  Borders borders;  // in the graph's ids
  // At least one. Those of a task stand together, and are the devices of one worker.
  std::vector<PlanDevice> devices;
};

// Makes a verified plan of the graph of one replica, which may have Gradients nodes. A pure
// function that any thread may call: equal arguments give equal plans. Errors name the node;
// resource_exhausted if the plan does not fit the devices, although values are computed again that
// could be kept.
Result<Plan> compile(Graph graph, const CompileRequest& request);

// The number of instructions of a plan that compute a value for the second time in a step, because
// the devices have too little memory to keep it.
size_t computed_again(const Plan& plan);

}  // namespace leat
