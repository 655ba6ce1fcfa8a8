// The variants and the axis of Softmax, for the definitions and the kernels.
#pragma once

#include <algorithm>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

enum class SoftmaxLines : uint8_t { softmax, log_softmax, softmax_grad, log_softmax_grad };

inline int softmax_axis(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis", -1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace leat
