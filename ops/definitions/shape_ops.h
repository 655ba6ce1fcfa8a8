// What the definition of these ops and their kernels share.
#pragma once

#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Axes [start, end) of an input of `rank`, as Shape's attributes say: counted from the end if
// negative, clamped to what there is.
inline std::pair<int, int> shape_range(const Attrs& attrs, int rank) {
  const auto clamp = [rank](int64_t axis) {
    return static_cast<int>(std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank));
  };
  const int start = clamp(attr_int(attrs, "start"));
  return {start, std::max(start, clamp(attr_int(attrs, "end", rank)))};
}

}  // namespace leat
