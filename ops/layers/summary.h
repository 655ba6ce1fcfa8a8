// A graph as a table for people, in the manner of Keras' summary.
#pragma once

#include <string>

#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

// The table has one row for each node of the graph as it is written, with layers unexpanded: its
// name and op, its output's shape, the parameters that it makes, and the million floating-point
// operations of its forward pass for one example (symbolic sizes count as 1; a multiply-add is
// two). Then come the totals. Errors are those of expand_layers(). The inputs have rows as well,
// without numbers.
Result<std::string> summarize(const Graph& graph);

}  // namespace leat
