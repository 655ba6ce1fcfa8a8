// The geometry of Slice, for its definition and its kernels.
#pragma once

#include <algorithm>
#include <limits>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The elements of one axis that a slice keeps: `count` elements, from `start`, every `step`-th.
struct SliceCut {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// Follows numpy's slices: negative bounds count from the end, and bounds beyond the ends are
// clamped.
inline SliceCut slice_axis_cut(int64_t size, int64_t start, int64_t end, int64_t step) {
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  if (start < 0) start += size;
  if (end < 0) end += size;
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  start = std::clamp(start, low, high);
  end = std::clamp(end, low, high);
  const int64_t distance = step > 0 ? end - start : start - end;
  if (distance <= 0) return {0, 1, 0};
  return {start, step, (distance - 1) / (step > 0 ? step : -step) + 1};
}

template <typename Context>
std::vector<int64_t> slice_ints(const Context& ctx, int i, bool present,
                                std::vector<int64_t> fallback) {
  if (!present) return fallback;
  return known_ints(ctx, i).value_or(std::vector<int64_t>());
}

inline std::vector<int64_t> slice_axes(size_t count) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

}  // namespace leat
