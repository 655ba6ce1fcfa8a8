// The activation that an op may apply to its result, attribute `leat_activation`. The pass in
// scheduler/compile/fuse.cc sets it.
#pragma once

#include "ops/graph/op.h"

namespace leat {

// Returns invalid_argument unless the attribute is absent or "relu".
Status check_fused_activation(const InferContext& ctx);

}  // namespace leat
