// A graph as it runs in a job: compiled, its tiles claimed by threads.
#pragma once

#include <map>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat::testing {

// The graph's outputs after one step of its plan, the inputs having the shapes of the feeds.
Result<std::vector<Tensor>> run_plan(Graph graph, const std::map<ValueId, Tensor>& feeds);

}  // namespace leat::testing
