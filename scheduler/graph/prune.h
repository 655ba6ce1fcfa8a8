// The pass that keeps what a step needs.
#pragma once

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/rewrite.h"

namespace leat {

// Keeps what the fetches and targets need when the feeds are given. A fed value becomes an input.
// invalid_argument: duplicate feed, a fed fetch, an input that is needed and not fed, nothing to
// do.
Result<Graph> prune(const Graph& graph, Borders& borders);
Result<Graph> prune(Graph&& graph, Borders& borders);  // without a copy, where it changes nothing

}  // namespace leat
