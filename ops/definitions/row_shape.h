// Checks of data against a model: the records of a data set must have the shape of a row of the
// model's input, and the labels that of the value they are compared with.
//
// The functions compare sizes one by one, in their order: `uint8[16,16,3]` is no row of
// `float[N,3,16,16]`, although it has as many elements. Two unambiguous differences are accepted:
// sizes of 1 may be there or not ([28,28] for [1,28,28]), and a record is flattened if the model
// has a flat row ([28,28] for [784]). A symbolic size accepts any size.
#pragma once

#include <string>

#include "devices/base/shape.h"
#include "ops/graph/types.h"

namespace leat {

// True if the data's rows, of shape `row`, fit the model's `value`, whose rows begin at dimension
// `first`.
bool fits_row(const Shape& row, const SymbolicShape& value, int first = 1);

// The shape of the model's row, with the data's sizes in place of symbols. REQUIRES: fits_row(),
// and the data has a size for each symbol.
Shape row_shape(const Shape& row, const SymbolicShape& value, int first = 1);

// A hint for a row that does not fit, as the end of a message ("; ..."): the transposition to
// apply, if the row has the model's sizes in another order. Else "".
std::string layout_hint(const Shape& row, const SymbolicShape& value, int first = 1);

}  // namespace leat
