#include "ops/graph/cost.h"

namespace leat {
namespace {

double elements(const OperandType& type) { return static_cast<double>(type.shape.elements()); }

// Two operations per multiply-add. Each element of `side` takes the elements of the kernel that
// share one index of its first axis; `side` is the operand that this axis belongs to: the outputs
// of a convolution, the inputs of a transposed one.
double conv_flops(const OperandType& side, const OperandType& kernel) {
  return 2 * elements(side) * elements(kernel) / static_cast<double>(kernel.shape[0]);
}

// Each element of the output takes `inner` multiply-adds. The inner size is the last one of A, or
// the last but one if A is transposed.
double matmul_flops(const OpTypes& types) {
  const Shape& a = types.inputs[0].shape;
  if (a.rank() == 0) return 0;
  const bool transposed = a.rank() > 1 && attr_int(*types.attrs, "transA") != 0;
  return 2 * elements(types.outputs[0]) * static_cast<double>(a[a.rank() - (transposed ? 2 : 1)]);
}

// Products of queries and keys, and of their probabilities and values, for all keys. The gradient
// computes the first again and has four others.
double attention_flops(const OpTypes& types, const OperandType& y, double products) {
  const Shape &q = types.inputs[0].shape, &k = types.inputs[1].shape;
  if (q.rank() < 3 || k.rank() < 3) return 0;
  double keys = static_cast<double>(k[k.rank() - 2]);
  const bool has_past = products == 2 && types.has_input(4);
  if (has_past) keys += static_cast<double>(types.inputs[4].shape[2]);
  return products * keys * (elements(types.inputs[0]) + elements(y));
}

}  // namespace

double product_flops(const OpDef& op, const OpTypes& types) {
  const std::string name = op.full_name();
  if (name == "MatMul" || name == "leat.MatMul" || name == "Gemm") return matmul_flops(types);
  if (name == "Conv") return conv_flops(types.outputs[0], types.inputs[1]);
  // Each element of the input takes part in one product with all weights of its channel.
  if (name == "ConvTranspose" || name == "leat.ConvGradInput") {
    return conv_flops(types.inputs[0], types.inputs[1]);
  }
  if (name == "leat.ConvGradWeights") return conv_flops(types.inputs[1], types.outputs[0]);
  if (name == "Attention") return attention_flops(types, types.outputs[0], 2);
  if (name == "leat.AttentionGrad") return attention_flops(types, types.inputs[3], 5);
  return 0;
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
