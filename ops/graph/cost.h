// The cost of ops in the roofline model: floating-point operations and bytes.
#pragma once

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The floating-point operations of a matrix product or a convolution, or of the gradient of one:
// two for each multiply-add. The result is 0 for all other ops, whose time depends on memory.
// REQUIRES: inference accepted the types.
double product_flops(const OpDef& op, const OpTypes& types);

// The bytes of all operands, each counted once.
double operand_bytes(const OpTypes& types);

}  // namespace leat
