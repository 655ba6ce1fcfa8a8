// The cost of ops in the roofline model (Williams et al., 2009): floating-point operations and
// bytes. The profile of a step divides them by the measured time, to show the speed of each op.
#pragma once

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The floating-point operations of an op that multiplies matrices (a product, a convolution, an
// attention, a recurrent cell, or the gradient of one), as its definition counts them: two for each
// multiply-add. The result is 0 for all other ops, whose time depends on memory.
// REQUIRES: inference accepted the types.
double product_flops(const OpDef& op, const OpTypes& types);

// The bytes of all operands that are present, each counted once although a kernel may read an
// operand several times. A variable counts whole, also if an op picks some of its rows.
double operand_bytes(const OpTypes& types);

// The number of elements of an operand, for the definitions that count.
inline double elements_of(const OperandType& type) {
  return static_cast<double>(type.shape.elements());
}

}  // namespace leat
