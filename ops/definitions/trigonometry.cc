// The trigonometric and hyperbolic functions beside Sin, Cos and Tanh.
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

// dy * (1 + sign * v^2), with v the input or the output.
ValueId one_and_square(GradientContext& ctx, ValueId value, double sign) {
  const DType dtype = ctx.type(value).dtype;
  const ValueId square = ctx.emit("Mul", {value, value});
  return ctx.emit(sign < 0 ? "Sub" : "Add", {ctx.scalar(1, dtype), square});
}

Status tan_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), one_and_square(ctx, ctx.output(0), 1)}));
  return {};
}

// dy / (1 + sign * x^2), or dy over the root of it.
std::function<Status(GradientContext&)> over_square(double sign, bool root, bool negative = false) {
  return [=](GradientContext& ctx) -> Status {
    ValueId below = one_and_square(ctx, ctx.input(0), sign);
    if (root) below = ctx.emit("Sqrt", {below});
    const ValueId dx = ctx.emit("Div", {ctx.grad(0), below});
    ctx.set_grad(0, negative ? ctx.emit("Neg", {dx}) : dx);
    return {};
  };
}

// dy / sqrt(x^2 - 1)
Status acosh_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0);
  const ValueId below =
      ctx.emit("Sub", {ctx.emit("Mul", {x, x}), ctx.scalar(1, ctx.type(x).dtype)});
  ctx.set_grad(0, ctx.emit("Div", {ctx.grad(0), ctx.emit("Sqrt", {below})}));
  return {};
}

// dy times another function of x.
std::function<Status(GradientContext&)> times(std::string_view function) {
  return [function = std::string(function)](GradientContext& ctx) -> Status {
    ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit(function, {ctx.input(0)})}));
    return {};
  };
}

Op function_op(std::string_view name, int since) {
  return Op(name, since)
      .input("input", "T")
      .output("output", "T")
      .type("T", kFloats)
      .infer(infer_same_as_first)
      .in_place(0, 0)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_elementwise);
}

}  // namespace

void register_trigonometry_ops(Catalogue& catalogue) {
  catalogue.add(function_op("Tan", 7).gradient(tan_gradient));
  catalogue.add(function_op("Asin", 7).gradient(over_square(-1, true)));
  catalogue.add(function_op("Acos", 7).gradient(over_square(-1, true, true)));
  catalogue.add(function_op("Atan", 7).gradient(over_square(1, false)));
  catalogue.add(function_op("Sinh", 9).gradient(times("Cosh")));
  catalogue.add(function_op("Cosh", 9).gradient(times("Sinh")));
  catalogue.add(function_op("Asinh", 9).gradient(over_square(1, true)));
  catalogue.add(function_op("Acosh", 9).gradient(acosh_gradient));
  catalogue.add(function_op("Atanh", 9).gradient(over_square(-1, false)));
}

}  // namespace leat
