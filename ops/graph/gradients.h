// Reverse-mode differentiation as a graph transform: gradients are ordinary nodes.
#pragma once

#include <span>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/validate.h"

namespace leat {

// Adds nodes that compute d(sum of y)/dx for each x, and returns their values. A value is kNone for
// an x that y does not depend on, and zeros if y depends on x only through ops without a gradient
// flow, such as Floor. The contributions to one value are summed in a fixed order (the reverse
// topological order of the consumers). The new nodes are inferred.
//
// REQUIRES: `inference` has run on the graph. invalid_argument if an op between x and y has no
// gradient.
Result<std::vector<ValueId>> add_gradients(Inference& inference, ValueId y,
                                           std::span<const ValueId> xs);

// Replaces every `leat.Gradients <n> (y, x...)` node with the nodes that compute its outputs.
Status expand_gradients(Inference& inference);

}  // namespace leat
