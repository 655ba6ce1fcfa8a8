// Functions that the definitions of Cast and CastLike share with their kernels.
#pragma once

#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The types of a CastLike as those of a Cast: the operand `target_type`, of which no element is
// read, is removed, so that rules for elementwise ops see the data alone. For a Cast nothing
// changes. The result shares `attrs` with `types`, which must outlive it.
inline OpTypes cast_input(const OpTypes& types) {
  OpTypes first = types;
  first.inputs.resize(1);
  return first;
}

}  // namespace leat
