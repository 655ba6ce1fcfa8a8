// The geometry of Slice, for its definition and its kernels.
#pragma once

#include <algorithm>
#include <limits>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The elements of one axis that a slice keeps: `count` elements, from `start`, every `step`-th. A
// negative step walks towards the beginning. If count > 0, start and start + (count - 1) * step are
// both in [0, size).
struct SliceCut {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// The cut of an axis of `size` elements. It follows numpy's slices and ONNX's Slice: negative
// bounds count from the end, and bounds beyond the ends are clamped. `end` is exclusive in the
// direction of the step; INT64_MAX and INT64_MIN are legal and mean the ends of the axis. An empty
// slice is {0, 1, 0}. REQUIRES: size >= 0 and step != 0, which inference has checked.
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

// Input i of a Slice as integers: `fallback` if it is absent, and an empty list if it is present
// and its values are not known. Context is InferContext or KernelSetup. `present` is an argument
// because the two report absence in different ways.
template <typename Context>
std::vector<int64_t> slice_ints(const Context& ctx, int i, bool present,
                                std::vector<int64_t> fallback) {
  if (!present) return fallback;
  return known_ints(ctx, i).value_or(std::vector<int64_t>());
}

// The default of operand `axes`: 0, 1, ..., count - 1, where count is the number of starts.
inline std::vector<int64_t> slice_axes(size_t count) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

}  // namespace leat
