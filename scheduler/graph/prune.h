// The pass that removes what a step does not need.
#pragma once

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/rewrite.h"

namespace leat {

// Keeps the nodes that the fetches and targets need when the feeds are given. A fed value becomes
// an input of the graph. `borders` gets the ids of the new graph. invalid_argument if a value is
// fed twice, a feed is fetched, an input is needed and not fed, or nothing is fetched or targeted.
Result<Graph> prune(const Graph& graph, Borders& borders);
// The same; makes no copy if there is nothing to remove.
Result<Graph> prune(Graph&& graph, Borders& borders);

}  // namespace leat
