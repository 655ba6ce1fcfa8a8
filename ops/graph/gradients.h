// Reverse-mode differentiation as a graph transform: gradients are ordinary nodes.
#pragma once

#include <span>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/graph/validate.h"

namespace leat {

// Adds nodes that compute d(sum of y)/dx for each x, and returns their values; kNone for an x that
// y does not depend on, zeros where it does through ops alone that pass nothing on, as Floor.
// Contributions to one value are summed in a fixed order (that of the consumers' topological
// positions). The new nodes are inferred.
//
// `inference` has run on the graph. invalid_argument if an op between x and y has no gradient.
Result<std::vector<ValueId>> add_gradients(Inference& inference, ValueId y,
                                           std::span<const ValueId> xs);

// Replaces every `leat.Gradients <n> (y, x...)` node by what it stands for.
Status expand_gradients(Inference& inference);

}  // namespace leat
