// The axes of Transpose, Concat and Split, for their definitions and their kernels.
#pragma once

#include <algorithm>
#include <numeric>

#include "devices/base/text.h"
#include "ops/definitions/elementwise.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

using TransposeAxes = std::vector<int64_t>;

// The axes of a Transpose: output axis d is input axis perm[d]. The default reverses them.
inline TransposeAxes permutation(const Attrs& attrs, int rank) {
  TransposeAxes perm = attr_ints(attrs, "perm");
  if (perm.empty()) {
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  }
  return perm;
}

inline int concat_axis(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

inline OpTypes only_input(const OpTypes& types) {
  OpTypes first = types;
  first.inputs.resize(1);
  return first;
}

}  // namespace leat
