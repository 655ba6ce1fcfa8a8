// Leaves out the outputs of a model that a job does not use, if they need what this build lacks:
// the labels of a classifier, which are strings or maps, beside its probabilities. Private to
// ops/onnx.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ops/text/draft.h"

namespace leat {

// The outputs that were taken from a graph, and how many nodes with them.
struct LeftOut {
  std::vector<std::string> outputs;
  size_t nodes = 0;
};

// Removes the nodes and outputs of the graph that depend on the values `missing`, which nothing in
// the graph makes.
LeftOut leave_out(DraftGraph& graph, std::set<std::string> missing);

}  // namespace leat
