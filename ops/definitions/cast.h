// Functions that the definitions of Cast and CastLike share with their kernels.
#pragma once

#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

inline OpTypes cast_input(const OpTypes& types) {
  OpTypes first = types;
  first.inputs.resize(1);
  return first;
}

}  // namespace leat
