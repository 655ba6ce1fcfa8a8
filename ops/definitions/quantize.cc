// leat.Quantize and leat.Dequantize, of which ONNX's ops on quantized values are made
// (ops/text/quantize_composites.cc).
//
// Their gradients are straight through: that of a stored number is the gradient of the float that
// it stands for, of the float's type.
//
// Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", 2018; Bengio et al., "Estimating or Propagating Gradients
// Through Stochastic Neurons", 2013.
#include "ops/definitions/quantize.h"

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// The zero must fit the shape of x and not widen it.
Status infer_shifted(InferContext& ctx, DType to) {
  if (ctx.has_input(1)) {
    const auto both = broadcast(ctx, ctx.shape(0), ctx.shape(1));
    if (!both || known_to_differ(*both, ctx.shape(0))) {
      return ctx.error(cat("zero: expected a shape that broadcasts to ", ctx.text(ctx.shape(0)),
                           ", received ", ctx.text(ctx.shape(1))));
    }
  }
  ctx.set_tensor(0, to, ctx.shape(0));
  return {};
}
Status infer_quantize(InferContext& ctx) { return infer_shifted(ctx, ctx.dtype(1)); }
Status infer_dequantize(InferContext& ctx) {
  const int64_t code = attr_int(ctx.attrs(), "to");
  const DType to = dtype_from_onnx_code(code);
  if (!is_float(to)) return ctx.error(cat("to: expected the code of a float, received ", code));
  return infer_shifted(ctx, to);
}

// 1 where the number was in the range of the type, else 0.
Status quantize_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0), zero = ctx.input(1);
  const DType to = ctx.type(zero).dtype;
  // 16 bits do not hold all zeros and sums.
  const DType in = ctx.type(x).dtype == DType::f64 ? DType::f64 : DType::f32;
  const Attrs as_float{{"to", int64_t{dtype_onnx_code(in)}}};
  const bool is_real = is_narrow_float(to);
  const ValueId near = ctx.emit("Cast", {is_real ? x : ctx.emit("Round", {x})}, as_float);
  const ValueId moved = ctx.emit("Add", {near, ctx.emit("Cast", {zero}, as_float)});
  const QuantizedRange range = quantized_range(to);
  const ValueId inside =
      ctx.emit("And", {ctx.emit("GreaterOrEqual", {moved, ctx.scalar(range.least, in)}),
                       ctx.emit("LessOrEqual", {moved, ctx.scalar(range.most, in)})});
  const ValueId grad = ctx.emit("CastLike", {ctx.grad(0), x});
  const ValueId nothing = ctx.scalar(0, ctx.type(x).dtype);
  ctx.set_grad(0, ctx.emit("Where", {inside, grad, nothing}));
  return {};
}

Status dequantize_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.grad(0));
  return {};
}

}  // namespace

void register_quantize_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Quantize")
                    .input("x", "T")
                    .input("zero", "Q")
                    .output("y", "Q")
                    .type("T", kFloats)
                    .type("Q", kQuantizedTypes)
                    .attr("saturate", int64_t{1})
                    .infer(infer_quantize)
                    .gradient(quantize_gradient, true)
                    .tiling(elementwise_tiling)
                    .sharding(shard_elementwise));
  catalogue.add(Op("leat.Dequantize")
                    .input("x", "Q")
                    .optional_input("zero", "Q")
                    .output("y", "T")
                    .type("Q", kQuantizedTypes | DTypeSet::of(DType::i32))
                    .type("T", kFloats)
                    .attr_required("to", "int")
                    .infer(infer_dequantize)
                    .gradient(dequantize_gradient)
                    .tiling(elementwise_tiling)
                    .sharding(shard_elementwise));
}

}  // namespace leat
