// What passes may know of the pools.
#pragma once

#include <optional>

#include "ops/graph/graph.h"

namespace leat {

// The attributes of the leat.MaxPoolGrad that belongs to a MaxPool or GlobalMaxPool over data of
// shape `x`; empty where x's spatial sizes are not known, or the node is neither.
std::optional<Attrs> max_pool_grad_attrs(const Node& pool, const SymbolicShape& x);

// Which output of such a node is argmax, the gradient's second input.
int argmax_output(const Node& pool);

}  // namespace leat
