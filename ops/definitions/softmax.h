// The variants and the axis of Softmax, for the definitions and the kernels.
//
// All variants work on lines: the elements along one axis with the same indices on the other axes.
// Lines are independent of each other. A line along axis 0 crosses all rows, and the op has no row
// tiles then.
#pragma once

#include <algorithm>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The gradients read dy and the output y of the forward op, not its input:
//   softmax_grad       dx = y (dy - sum(dy y))
//   log_softmax_grad   dx = dy - e^y sum(dy)
enum class SoftmaxLines : uint8_t { softmax, log_softmax, softmax_grad, log_softmax_grad };

// Attribute `axis` in [0, rank), the last axis if it is absent (ONNX from opset 13 on). REQUIRES:
// the axis is in [-rank, rank), which inference has checked.
inline int softmax_axis(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis", -1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace leat
