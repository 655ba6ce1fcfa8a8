// Which data a model takes: whether the records of a data set have the shape of the rows of its
// input, and labels that of what they are compared with.
//
// Sizes are compared one by one, in their order: `uint8[16,16,3]` is no row of `float[N,3,16,16]`,
// although it has as many elements. Two things cannot be mistaken, and are taken: sizes of 1 may be
// there or not ([28,28] for [1,28,28]), and where the model takes a flat row a record is flattened
// ([28,28] for [784]). A symbolic size takes any.
#pragma once

#include <string>

#include "devices/base/shape.h"
#include "ops/graph/types.h"

namespace leat {

// `row`: of the data; `value`: the model's, whose rows begin at dimension `first`.
bool fits_row(const Shape& row, const SymbolicShape& value, int first = 1);

// The row with its symbolic sizes as the data has them. REQUIRES: fits_row(), and no symbolic size
// without one of the data.
Shape row_shape(const Shape& row, const SymbolicShape& value, int first = 1);

// A hint for a row that does not fit, "; ..." for the end of a message, or "": how to transpose it,
// if its sizes are those of the model in another order.
std::string layout_hint(const Shape& row, const SymbolicShape& value, int first = 1);

}  // namespace leat
