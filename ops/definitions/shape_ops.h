// The attributes of the shape ops, for their definitions and their kernels.
#pragma once

#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The axes [start, end) of an input of `rank`, from the attributes of Shape: negative numbers count
// from the end, and both are clamped to [0, rank]. An absent `start` is 0 and an absent `end` is
// the rank; if end <= start, the range is empty and begins at start. No value is an error.
inline std::pair<int, int> shape_range(const Attrs& attrs, int rank) {
  const auto clamp = [rank](int64_t axis) {
    return static_cast<int>(std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank));
  };
  const int start = clamp(attr_int(attrs, "start"));
  return {start, std::max(start, clamp(attr_int(attrs, "end", rank)))};
}

}  // namespace leat
