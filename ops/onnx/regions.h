// Moves the weights of regions to the graph around them. Private to ops/onnx.
#pragma once

#include "ops/text/draft.h"

namespace leat {

// An initializer of a region (the body of a Loop or Scan, a branch of an If) that is a float tensor
// with a rank becomes one of the graph itself, which the region captures: it can be trained then,
// and all iterations share it. If the graph has its name already, the initializer gets a new one.
void hoist_region_constants(DraftGraph& graph);

}  // namespace leat
