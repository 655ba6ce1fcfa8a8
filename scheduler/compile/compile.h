// From a graph to a plan.
#pragma once

#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/rewrite.h"
#include "scheduler/plan/plan.h"
#include "scheduler/strategies/strategy.h"

namespace leat {

struct CompileRequest {
  std::string name = "plan";
  Borders borders;                   // in the graph's ids
  std::vector<std::string> devices;  // full names, "job:worker/task:0/cpu:0"; at least one
  std::string strategy = "single";
  int shards = 1;   // logical replicas
  int servers = 1;  // parameter servers; as StrategyOptions says
  VariableServers variable_servers = {};
  int asynchronous_worker = -1;
  Quorum quorum = {};
  // Each device writes to variables when nothing of the step can wait or fail any more, so that a
  // run that fails leaves whole steps: see ops/definitions/commits.h. Plan::commits() says whether
  // that can be.
  bool recoverable = false;
  // Steps whose numbers are not finite write nothing: see guard_writes(). There is one fetch more.
  bool skips_not_finite = false;
  uint64_t device_memory_bytes = 0;  // of each device; 0: unknown, not checked
};

// `graph` is one replica's, single-device, possibly with Gradients nodes. Equal arguments give
// equal plans. Errors name the node; a plan that does not fit the devices is resource_exhausted.
Result<Plan> compile(Graph graph, const CompileRequest& request);

}  // namespace leat
