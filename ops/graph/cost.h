// What ops cost, as a roofline counts it.
#pragma once

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Floating-point operations of a matrix product or a convolution, or of the gradient of one: two
// for each multiply-add. 0 for all other ops, which are bound by memory. REQUIRES: types that
// inference accepted.
double product_flops(const OpDef& op, const OpTypes& types);

// Bytes of all operands, each counted once.
double operand_bytes(const OpTypes& types);

}  // namespace leat
