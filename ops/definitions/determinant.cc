// Det, and leat.DetGrad, the gradient of the determinants.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

Status expect_square(const InferContext& ctx, const SymbolicShape& x) {
  const int rank = x.rank();
  if (rank >= 2 && !known_to_differ(x[rank - 2], x[rank - 1])) return {};
  return ctx.error(cat("X: expected square matrices of [...,M,M], received ", ctx.text(x)));
}

// The shape of the determinants: that of the matrices without their last two sizes.
SymbolicShape determinants_of(const SymbolicShape& x) {
  SymbolicShape y;
  for (int d = 0; d + 2 < x.rank(); ++d) y.push_back(x[d]);
  return y;
}

Status infer_determinant(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_square(ctx, ctx.shape(0)));
  ctx.set_tensor(0, ctx.dtype(0), determinants_of(ctx.shape(0)));
  return {};
}

// Inputs: dy, X.
Status infer_determinant_grad(InferContext& ctx) {
  const SymbolicShape &dy = ctx.shape(0), &x = ctx.shape(1);
  LEAT_RETURN_IF_ERROR(expect_square(ctx, x));
  const SymbolicShape y = determinants_of(x);
  if (dy.rank() != y.rank() || known_to_differ(dy, y))
    return ctx.error(cat("dY: expected ", ctx.text(y), ", received ", ctx.text(dy)));
  ctx.set_output(0, ctx.input(1));
  return {};
}

Status determinant_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("leat.DetGrad", {ctx.grad(0), ctx.input(0)}));
  return {};
}

// Every axis of the batch may be split.
std::vector<ShardingRule> shard_matrices(const std::vector<OperandType>& inputs,
                                         const std::vector<OperandType>& outputs, const Attrs&) {
  std::vector<ShardingRule> rules;
  for (int axis = 0; axis + 2 < inputs.back().shape.rank(); ++axis) {
    rules.push_back({std::vector<Spread>(inputs.size(), Spread::on(axis)),
                     std::vector<Spread>(outputs.size(), Spread::on(axis))});
  }
  return rules;
}

}  // namespace

void register_determinant_ops(Catalogue& catalogue) {
  catalogue.add(Op("Det", 22)
                    .input("X", "T")
                    .output("Y", "T")
                    .type("T", kFloats)
                    .infer(infer_determinant)
                    .gradient(determinant_gradient)
                    .sharding(shard_matrices));
  catalogue.add(Op("leat.DetGrad")
                    .input("dY", "T")
                    .input("X", "T")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .infer(infer_determinant_grad)
                    .sharding(shard_matrices));
}

}  // namespace leat
