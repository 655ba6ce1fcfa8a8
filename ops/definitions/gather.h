// The axis of Gather and the ops like it, for their definitions and their kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/definitions/variable.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Attribute `axis` (0 if absent) in [0, rank): a negative axis counts from the end. `rank` is that
// of the data, not that of the indices. REQUIRES: the axis is in [-rank, rank), which inference has
// checked.
inline int gather_axis(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace leat
