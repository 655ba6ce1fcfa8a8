// Runs a graph as a job does: compiled, with threads that claim its tiles.
#pragma once

#include <map>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat::testing {

// Returns the graph's outputs after one step of its plan. The inputs have the shapes of the feeds.
Result<std::vector<Tensor>> run_plan(Graph graph, const std::map<ValueId, Tensor>& feeds);

}  // namespace leat::testing
