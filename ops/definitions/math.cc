// Arithmetic of two or more operands: Add Sub Mul Div Pow Mod, Max Min Sum.
#include <cmath>
#include <limits>

#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

// --- gradients -------------------------------------------------------------------------------

// Sets the gradient of an operand that may have been broadcast.
void give(GradientContext& ctx, int input, ValueId grad) {
  ctx.set_grad(input, ctx.unbroadcast(grad, ctx.input(input)));
}

Status add_gradient(GradientContext& ctx) {
  for (int i = 0; i < static_cast<int>(ctx.node().inputs.size()); ++i) {
    if (ctx.needs(i)) give(ctx, i, ctx.grad(0));
  }
  return {};
}

Status sub_gradient(GradientContext& ctx) {
  if (ctx.needs(0)) give(ctx, 0, ctx.grad(0));
  if (ctx.needs(1)) {
    ctx.set_grad(1, ctx.emit("Neg", {ctx.unbroadcast(ctx.grad(0), ctx.input(1))}));
  }
  return {};
}

Status mul_gradient(GradientContext& ctx) {
  if (ctx.needs(0)) give(ctx, 0, ctx.emit("Mul", {ctx.grad(0), ctx.input(1)}));
  if (ctx.needs(1)) give(ctx, 1, ctx.emit("Mul", {ctx.grad(0), ctx.input(0)}));
  return {};
}

// y = a / b: da = dy / b and db = -dy / b * y, which reads y and not a.
Status div_gradient(GradientContext& ctx) {
  if (!ctx.needs(0) && !ctx.needs(1)) return {};
  const ValueId scaled = ctx.emit("Div", {ctx.grad(0), ctx.input(1)});
  if (ctx.needs(0)) give(ctx, 0, scaled);
  if (ctx.needs(1)) give(ctx, 1, ctx.emit("Neg", {ctx.emit("Mul", {scaled, ctx.output(0)})}));
  return {};
}

// y = a - n * b with the whole number n = (a - y) / b, which no small change of a or b moves.
Status mod_gradient(GradientContext& ctx) {
  if (ctx.needs(0)) give(ctx, 0, ctx.grad(0));
  if (!ctx.needs(1)) return {};
  const ValueId times =
      ctx.emit("Div", {ctx.emit("Sub", {ctx.input(0), ctx.output(0)}), ctx.input(1)});
  give(ctx, 1, ctx.emit("Neg", {ctx.emit("Mul", {ctx.grad(0), times})}));
  return {};
}

// dx = dy * e * x^(e-1); de = dy * y * log(x), and 0 for x = 0.
Status pow_gradient(GradientContext& ctx) {
  const DType dtype = ctx.type(ctx.input(0)).dtype;
  const ValueId x = ctx.input(0), y = ctx.output(0);
  if (ctx.needs(0)) {
    ValueId exponent = ctx.input(1);
    if (ctx.type(exponent).dtype != dtype) {
      exponent = ctx.emit("Cast", {exponent}, {{"to", int64_t{dtype_onnx_code(dtype)}}});
    }
    give(ctx, 0, ctx.emit("leat.PowGrad", {ctx.grad(0), x, exponent}));
  }
  if (ctx.needs(1)) {
    // Log(0) is -infinity, and 0 * -infinity is NaN: the Where removes it.
    const ValueId zero = ctx.scalar(0, dtype);
    const ValueId slope = ctx.emit("Mul", {y, ctx.emit("Log", {x})});
    const ValueId safe = ctx.emit("Where", {ctx.emit("Equal", {x, zero}), zero, slope});
    ValueId grad = ctx.emit("Mul", {ctx.grad(0), safe});
    const DType wanted = ctx.type(ctx.input(1)).dtype;
    if (wanted != dtype)
      grad = ctx.emit("Cast", {grad}, {{"to", int64_t{dtype_onnx_code(wanted)}}});
    give(ctx, 1, grad);
  }
  return {};
}

// Inputs that tie for the maximum or minimum share the gradient equally, as in PyTorch's maximum.
Status extreme_gradient(GradientContext& ctx) {
  const auto inputs = static_cast<int>(ctx.node().inputs.size());
  if (inputs == 1) {
    ctx.set_grad(0, ctx.grad(0));
    return {};
  }
  const int64_t code = dtype_onnx_code(ctx.type(ctx.output(0)).dtype);
  std::vector<ValueId> hits;
  for (int i = 0; i < inputs; ++i) {
    hits.push_back(
        ctx.emit("Cast", {ctx.emit("Equal", {ctx.input(i), ctx.output(0)})}, {{"to", code}}));
  }
  const ValueId share = ctx.emit("Div", {ctx.grad(0), ctx.emit("Sum", hits)});
  for (int i = 0; i < inputs; ++i) {
    if (ctx.needs(i)) give(ctx, i, ctx.emit("Mul", {share, hits[static_cast<size_t>(i)]}));
  }
  return {};
}

// --- registration ----------------------------------------------------------------------------

Op elementwise_op(std::string_view name, int since) {
  return Op(name, since)
      .infer(infer_broadcast)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts);
}

// Either operand may share memory with the result: an element is read before it is written.
Op binary_op(std::string_view name, int since) {
  return elementwise_op(name, since)
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", kNumbers)
      .in_place(0, 0)
      .in_place(0, 1);
}

// The op does not run in place: if a node has the same operand twice, the first pair would
// overwrite it.
Op variadic_op(std::string_view name, int since, std::string input, DTypeSet types) {
  return elementwise_op(name, since)
      .variadic_input(std::move(input), "T")
      .output("result", "T")
      .type("T", types);
}

}  // namespace

void register_math_ops(Catalogue& catalogue) {
  catalogue.add(binary_op("Add", 14).commutative().gradient(add_gradient).sharding(shard_linear));
  catalogue.add(binary_op("Sub", 14).gradient(sub_gradient).sharding(shard_linear));
  catalogue.add(
      binary_op("Mul", 14).commutative().gradient(mul_gradient).sharding(shard_multilinear));
  catalogue.add(binary_op("Div", 14).gradient(div_gradient).sharding(shard_linear_in_first));
  catalogue.add(binary_op("Mod", 13)
                    .attr("fmod", int64_t{0})
                    .gradient(mod_gradient)
                    .sharding(shard_elementwise));
  catalogue.add(elementwise_op("Pow", 15)
                    .input("X", "T")
                    .input("Y", "T1")
                    .output("Z", "T")
                    .type("T", kFloats | DTypeSet::of(DType::i32, DType::i64))
                    .type("T1", kNumbers)
                    .in_place(0, 0)
                    .gradient(pow_gradient)
                    .sharding(shard_elementwise));
  catalogue.add(elementwise_op("leat.PowGrad", 1)
                    .input("dY", "T")
                    .input("X", "T")
                    .input("Y", "T")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .in_place(0, 0)
                    .sharding(shard_linear_in_first));
  catalogue.add(variadic_op("Max", 13, "data_0", kNumbers)
                    .gradient(extreme_gradient)
                    .sharding(shard_elementwise));
  catalogue.add(variadic_op("Min", 13, "data_0", kNumbers)
                    .gradient(extreme_gradient)
                    .sharding(shard_elementwise));
  catalogue.add(
      variadic_op("Sum", 13, "data_0", kFloats).gradient(add_gradient).sharding(shard_linear));
}

}  // namespace leat
