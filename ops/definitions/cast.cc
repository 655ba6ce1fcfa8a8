// Cast, CastLike, leat.Widen and BitCast.
#include "ops/definitions/cast.h"

#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

// The value of the output, if that of the input is known: a Range of cast sizes has a known length.
// A float beyond the integers is left to the kernel, and so is what attributes decide.
void pass_constant_on(InferContext& ctx, DType to) {
  const Tensor* value = ctx.constant(0);
  const bool exact = value && (is_int(value->dtype()) || value->dtype() == DType::boolean);
  if (value && !is_narrow(to) && (exact || is_float(to))) ctx.set_constant(0, value->cast(to));
  if (!ctx.sizes(0).empty() && (to == DType::i64 || to == DType::i32))
    ctx.set_sizes(0, ctx.sizes(0));
}

Status check_round_mode(const InferContext& ctx) {
  const std::string mode = attr_string(ctx.attrs(), "round_mode", "up");
  if (mode == "up" || mode == "down" || mode == "nearest") return {};
  return ctx.error(cat("round_mode: expected up, down or nearest, received '", mode, "'"));
}

Status infer_cast(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_round_mode(ctx));
  const int64_t code = attr_int(ctx.attrs(), "to");
  const DType to = dtype_from_onnx_code(code);
  if (to == DType::invalid) {
    return ctx.error(cat("to: expected the code of a numeric type or bool, received ", code));
  }
  ctx.set_tensor(0, to, ctx.shape(0));
  pass_constant_on(ctx, to);
  return {};
}

// Only the type of input 1 is read, not its elements.
Status infer_cast_like(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_round_mode(ctx));
  ctx.set_tensor(0, ctx.dtype(1), ctx.shape(0));
  pass_constant_on(ctx, ctx.dtype(1));
  return {};
}

// Float32 in place of floats of 16 bits and of narrow types, or of these alone.
Status infer_widen(InferContext& ctx) {
  const DType from = ctx.dtype(0);
  const bool stays =
      from == DType::f64 || (!is_narrow(from) && attr_int(ctx.attrs(), "only_narrow", 0) != 0);
  const DType to = stays ? from : DType::f32;
  ctx.set_tensor(0, to, ctx.shape(0));
  pass_constant_on(ctx, to);
  return {};
}

// A gradient has the type of the float that was cast. Elements that stand for floats
// (ops/definitions/quantize.cc) have gradients of floats.
Status cast_gradient(GradientContext& ctx) {
  const DType from = ctx.type(ctx.input(0)).dtype;
  const int64_t to = dtype_onnx_code(from);
  ctx.set_grad(0, is_float(from) ? ctx.emit("Cast", {ctx.grad(0)}, {{"to", to}}) : ctx.grad(0));
  return {};
}

Status infer_bit_cast(InferContext& ctx) {
  const int64_t code = attr_int(ctx.attrs(), "to");
  const DType from = ctx.dtype(0), to = dtype_from_onnx_code(code);
  if (to == DType::invalid)
    return ctx.error(cat("to: expected the code of a numeric type or bool, received ", code));
  if (dtype_bits(to) != dtype_bits(from)) {
    return ctx.error(cat("to: expected a type with the ", dtype_bits(from), " bits of ", from,
                         ", received ", to));
  }
  ctx.set_tensor(0, to, ctx.shape(0));
  return {};
}

// The target of CastLike is whole in every rule, because its shape is unrelated to the output's.
std::vector<ShardingRule> shard_cast(const std::vector<OperandType>& inputs,
                                     const std::vector<OperandType>& outputs, const Attrs& attrs) {
  auto rules = shard_elementwise({inputs[0]}, outputs, attrs);
  for (ShardingRule& rule : rules) rule.inputs.resize(inputs.size());
  return rules;
}

Op cast_op(std::string_view name, int since) {
  return Op(name, since)
      .input("input", "T1")
      .type("T1", kStoredTypes)
      .type("T2", kStoredTypes)
      // Of floats of 8 bits alone, and the second of f8e8m0.
      .attr("saturate", int64_t{1})
      .attr("round_mode", std::string("up"))
      .gradient(cast_gradient)
      .sharding(shard_cast)
      .tiling([](const OpTypes& types) { return elementwise_tiling(cast_input(types)); })
      .layouts([](const OpTypes& types) { return elementwise_layouts(cast_input(types)); });
}

}  // namespace

void register_cast_ops(Catalogue& catalogue) {
  catalogue.add(
      cast_op("Cast", 19).output("output", "T2").attr_required("to", "int").infer(infer_cast));
  catalogue.add(cast_op("CastLike", 19)
                    .input("target_type", "T2")
                    .output("output", "T2")
                    .infer(infer_cast_like));
  catalogue.add(Op("leat.Widen")
                    .input("input", "T1")
                    .output("output", "T2")
                    .type("T1", kFloats | kNarrowTypes)
                    .type("T2", kFloats)
                    .attr("only_narrow", int64_t{0})
                    .infer(infer_widen)
                    .gradient(cast_gradient)
                    .sharding(shard_cast)
                    .tiling(elementwise_tiling));
  catalogue.add(Op("BitCast", 26)
                    .input("input", "T1")
                    .output("output", "T2")
                    .type("T1", kStoredTypes)
                    .type("T2", kStoredTypes)
                    .attr_required("to", "int")
                    .in_place(0, 0)
                    .infer(infer_bit_cast)
                    .tiling(elementwise_tiling)
                    .sharding(shard_elementwise));
}

}  // namespace leat
