// The activation that an op may apply to its result, attribute `leat_activation`: fused into it by
// scheduler/compile/fuse.cc.
#pragma once

#include "ops/graph/op.h"

namespace leat {

// invalid_argument unless the attribute is absent or "relu".
Status check_fused_activation(const InferContext& ctx);

}  // namespace leat
