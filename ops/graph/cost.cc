#include "ops/graph/cost.h"

namespace leat {

double product_flops(const OpDef& op, const OpTypes& types) {
  return op.flops ? op.flops(types) : 0;
}

// An operand that is absent costs nothing. The bytes are those of the plan's concrete shapes.
double operand_bytes(const OpTypes& types) {
  double bytes = 0;
  for (const auto* operands : {&types.inputs, &types.outputs}) {
    for (const OperandType& operand : *operands) {
      if (operand.present) bytes += static_cast<double>(operand.bytes());
    }
  }
  return bytes;
}

}  // namespace leat
