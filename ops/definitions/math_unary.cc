// Arithmetic of one operand, and Clip.
#include <cmath>
#include <limits>

#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

// Checks that inputs from `first` on are scalars (or have one element), if they are there.
Status infer_clip(InferContext& ctx, int first) {
  for (int i = first; i < ctx.inputs(); ++i) {
    if (!ctx.has_input(i)) continue;
    for (Dim dim : ctx.shape(i).dims()) {
      if (dim == Dim::of(1)) continue;
      return ctx.error("min and max: expected scalars, input is " + ctx.text(ctx.shape(i)));
    }
    if (ctx.shape(i).rank() > ctx.shape(0).rank()) {
      return ctx.error("min and max: expected scalars, input is " + ctx.text(ctx.shape(i)));
    }
  }
  return infer_same_as_first(ctx);
}

// The gradient passes where x is within the bounds, and is zero elsewhere.
Status clip_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs = {ctx.grad(0), ctx.input(0), ctx.input(1), ctx.input(2)};
  ctx.set_grad(0, ctx.emit("leat.ClipGrad", inputs));
  return {};
}

// --- gradients -------------------------------------------------------------------------------

Status neg_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Neg", {ctx.grad(0)}));
  return {};
}

Status abs_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Sign", {ctx.input(0)})}));
  return {};
}

Status exp_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.output(0)}));
  return {};
}

Status log_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Div", {ctx.grad(0), ctx.input(0)}));
  return {};
}

// dx = dy / (2 y)
Status sqrt_gradient(GradientContext& ctx) {
  const ValueId half = ctx.scalar(0.5, ctx.type(ctx.input(0)).dtype);
  ctx.set_grad(0, ctx.emit("Div", {ctx.emit("Mul", {ctx.grad(0), half}), ctx.output(0)}));
  return {};
}

Status sin_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Cos", {ctx.input(0)})}));
  return {};
}

Status cos_gradient(GradientContext& ctx) {
  const ValueId sin = ctx.emit("Sin", {ctx.input(0)});
  ctx.set_grad(0, ctx.emit("Neg", {ctx.emit("Mul", {ctx.grad(0), sin})}));
  return {};
}

// dx = -dy y^2
Status reciprocal_gradient(GradientContext& ctx) {
  const ValueId square = ctx.emit("Mul", {ctx.output(0), ctx.output(0)});
  ctx.set_grad(0, ctx.emit("Neg", {ctx.emit("Mul", {ctx.grad(0), square})}));
  return {};
}

// dx = dy 2/sqrt(pi) e^(-x^2)
Status erf_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0);
  const ValueId scale = ctx.scalar(1.1283791670955126, ctx.type(x).dtype);
  const ValueId bell = ctx.emit("Exp", {ctx.emit("Neg", {ctx.emit("Mul", {x, x})})});
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Mul", {bell, scale})}));
  return {};
}

// The function is constant wherever it is differentiable: no gradient flows.
Status no_gradient(GradientContext&) { return {}; }

// --- registration ----------------------------------------------------------------------------

Op unary_op(std::string_view name, int since, DTypeSet types) {
  return Op(name, since)
      .input("X", "T")
      .output("Y", "T")
      .type("T", types)
      .infer(infer_same_as_first)
      .in_place(0, 0)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_elementwise);
}

Op clip_op(std::string_view name, int since, DTypeSet types) {
  return Op(name, since)
      .type("T", types)
      .in_place(0, 0)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts);
}

}  // namespace

void register_unary_math_ops(Catalogue& catalogue) {
  catalogue.add(unary_op("Neg", 13, kSigned).gradient(neg_gradient).sharding(shard_linear));
  catalogue.add(unary_op("Abs", 13, kNumbers).gradient(abs_gradient));
  catalogue.add(unary_op("Sign", 13, kNumbers).gradient(no_gradient));
  catalogue.add(unary_op("Reciprocal", 13, kFloats).gradient(reciprocal_gradient));
  catalogue.add(unary_op("Sqrt", 13, kFloats).gradient(sqrt_gradient));
  catalogue.add(unary_op("Exp", 13, kFloats).gradient(exp_gradient));
  catalogue.add(unary_op("Log", 13, kFloats).gradient(log_gradient));
  catalogue.add(unary_op("Sin", 7, kFloats).gradient(sin_gradient));
  catalogue.add(unary_op("Cos", 7, kFloats).gradient(cos_gradient));
  catalogue.add(unary_op("Erf", 13, kFloats).gradient(erf_gradient));
  catalogue.add(unary_op("Floor", 13, kFloats).gradient(no_gradient));
  catalogue.add(unary_op("Ceil", 13, kFloats).gradient(no_gradient));
  catalogue.add(unary_op("Round", 11, kFloats).gradient(no_gradient));
  catalogue.add(clip_op("Clip", 13, kNumbers)
                    .input("input", "T")
                    .optional_input("min", "T")
                    .optional_input("max", "T")
                    .output("output", "T")
                    .gradient(clip_gradient)
                    .infer([](InferContext& ctx) { return infer_clip(ctx, 1); })
                    .sharding(shard_elementwise));
  catalogue.add(clip_op("leat.ClipGrad", 1, kFloats)
                    .input("dY", "T")
                    .input("X", "T")
                    .optional_input("min", "T")
                    .optional_input("max", "T")
                    .output("dX", "T")
                    .infer([](InferContext& ctx) { return infer_clip(ctx, 2); })
                    .sharding(shard_linear_in_first));
}

}  // namespace leat
