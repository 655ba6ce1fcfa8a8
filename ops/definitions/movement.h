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

// The axes of a Transpose: output axis d is input axis perm[d]. The default reverses them, as in
// ONNX and numpy. A given `perm` is returned as it is written: inference refuses one that is no
// permutation of [0, rank).
inline TransposeAxes permutation(const Attrs& attrs, int rank) {
  TransposeAxes perm = attr_ints(attrs, "perm");
  if (perm.empty()) {
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  }
  return perm;
}

// Attribute `axis` (0 if absent) of Concat or Split in [0, rank). A negative axis counts from the
// end. REQUIRES: the axis is in [-rank, rank), which inference has checked.
inline int concat_axis(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// The same types with input 0 alone. Expand and Tile have an operand of sizes beside their data; a
// rule for elementwise ops must not take that operand for one of rows. The result shares `attrs`
// with `types`, which must outlive it.
inline OpTypes only_input(const OpTypes& types) {
  OpTypes first = types;
  first.inputs.resize(1);
  return first;
}

}  // namespace leat
