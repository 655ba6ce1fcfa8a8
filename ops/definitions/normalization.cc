#include "devices/base/text.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

// Statistics of 16-bit floats are float: their own type would be too coarse for a variance.
DType statistics_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// Checks that dy (input a) and x (input b) have one shape, as far as the sizes are known.
Status check_same_shape(const InferContext& ctx, int a, int b) {
  const SymbolicShape &x = ctx.shape(a), &y = ctx.shape(b);
  bool fits = x.rank() == y.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = !known_to_differ(x[i], y[i]);
  if (fits) return {};
  return ctx.error(
      cat("dy and x: expected one shape, received ", ctx.text(x), " and ", ctx.text(y)));
}

// --- BatchNormalization ---

// Checks x [N, C, ...] and that inputs [first, end) have one value per channel.
Status check_channels(const InferContext& ctx, int x, int first, int end) {
  const SymbolicShape& shape = ctx.shape(x);
  if (shape.rank() < 2) return ctx.error(cat("x: expected [N,C,...], received ", ctx.text(shape)));
  for (int i = first; i < end; ++i) {
    if (ctx.shape(i).rank() == 1 && !known_to_differ(ctx.shape(i)[0], shape[1])) continue;
    return ctx.error(cat("input ", i, ": expected one value for each channel of ", ctx.text(shape),
                         ", received shape ", ctx.text(ctx.shape(i))));
  }
  return {};
}

Status infer_batch_norm(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_channels(ctx, 0, 1, 5));
  const bool training = attr_int(ctx.attrs(), "training_mode") != 0;
  if (!training && (ctx.wants_output(1) || ctx.wants_output(2))) {
    return ctx.error("expected training_mode=1 where running statistics are wanted");
  }
  // Outputs 1 and 2 are the updated running statistics, 3 and 4 those of this batch, for the
  // gradient.
  const SymbolicShape channels{ctx.shape(0)[1]};
  ctx.set_output(0, ctx.input(0));
  ctx.set_tensor(1, ctx.dtype(3), channels);
  ctx.set_tensor(2, ctx.dtype(4), channels);
  ctx.set_tensor(3, statistics_dtype(ctx.dtype(0)), channels);
  ctx.set_tensor(4, statistics_dtype(ctx.dtype(0)), channels);
  return {};
}

// y = (x - mean) * scale * inverse + bias with inverse = (variance + epsilon)^-1/2, so that
// dmean = -dbias * scale * inverse, and dvariance = -dscale * scale * inverse^2 / 2. A network that
// normalizes its weights has computed statistics.
void gradients_of_statistics(GradientContext& ctx, ValueId dscale, ValueId dbias, ValueId inverse) {
  const auto cast = [&](ValueId value, ValueId like) {
    const DType to = ctx.type(like).dtype;
    if (ctx.type(value).dtype == to) return value;
    return ctx.emit("Cast", {value}, {{"to", int64_t{dtype_onnx_code(to)}}});
  };
  const auto times = [&](ValueId a, ValueId b) { return ctx.emit("Mul", {cast(a, inverse), b}); };
  const ValueId factor = times(ctx.input(1), inverse);
  if (ctx.needs(3)) ctx.set_grad(3, cast(ctx.emit("Neg", {times(dbias, factor)}), ctx.input(3)));
  if (!ctx.needs(4)) return;
  const ValueId half = ctx.scalar(-0.5, ctx.type(inverse).dtype);
  const ValueId product = ctx.emit("Mul", {times(dscale, factor), inverse});
  ctx.set_grad(4, cast(ctx.emit("Mul", {product, half}), ctx.input(4)));
}

// The backward pass reads the mean and 1 / standard deviation that the forward pass computed, so
// the forward node gets them as outputs.
Status batch_norm_gradient(GradientContext& ctx) {
  const bool training = attr_int(ctx.node().attrs, "training_mode") != 0;
  // In training mode y depends on the running statistics not at all.
  const bool of_statistics = !training && (ctx.needs(3) || ctx.needs(4));
  if (ctx.grad(0) == kNone || !(ctx.needs(0) || ctx.needs(1) || ctx.needs(2) || of_statistics))
    return {};
  const ValueId mean = ctx.optional_output(3), inverse = ctx.optional_output(4);
  const Attrs attrs = {{"training_mode", int64_t{training}}};
  const auto grads = ctx.emit_n("leat.BatchNormalizationGrad",
                                {ctx.grad(0), ctx.input(0), ctx.input(1), mean, inverse}, attrs, 3);
  for (int i = 0; i < 3; ++i) ctx.set_grad(i, grads[static_cast<size_t>(i)]);
  if (of_statistics) gradients_of_statistics(ctx, grads[1], grads[2], inverse);
  return {};
}

Status infer_batch_norm_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_same_shape(ctx, 0, 1));
  LEAT_RETURN_IF_ERROR(check_channels(ctx, 1, 2, 5));
  ctx.set_output(0, ctx.input(1));
  ctx.set_output(1, ctx.input(2));
  ctx.set_output(2, ctx.input(2));
  return {};
}

// In training the statistics need the whole batch: the output is computed by rows, but the input
// must be whole.
Tiling tile_batch_norm(const OpTypes& types) {
  const bool training = attr_int(*types.attrs, "training_mode") != 0;
  return {types.inputs[0].shape[0], training ? 0u : 1u, 1};
}

// dx is computed by rows after the sums over the batch. dy and x are whole, because the sums read
// them before the row phase.
Tiling tile_batch_norm_grad(const OpTypes& types) { return {types.inputs[1].shape[0], 0, 1}; }

// The blocked loops exist for f32, f16 and bf16 and two spatial axes only. `support` is what they
// offer.
LayoutSupport blocked_where(const OperandType& x, LayoutSupport support) {
  const bool fits = (x.dtype == DType::f32 || is_16bit_float(x.dtype)) && x.shape.rank() == 4 &&
                    x.shape[1] % 16 == 0;
  return fits ? support : LayoutSupport();
}

// Samples are independent if the statistics are inputs.
std::vector<ShardingRule> shard_batch_norm(const std::vector<OperandType>& inputs,
                                           const std::vector<OperandType>& outputs,
                                           const Attrs& attrs) {
  if (attr_int(attrs, "training_mode") != 0) return {};
  std::vector<Spread> spreads(inputs.size()), results(outputs.size());
  spreads[0] = results[0] = Spread::on(0);
  return {{spreads, results}};
}

void add_batch_norm(Catalogue& catalogue) {
  catalogue.add(Op("BatchNormalization", 15)
                    .input("X", "T")
                    .input("scale", "T1")
                    .input("B", "T1")
                    .input("input_mean", "T2")
                    .input("input_var", "T2")
                    .output("Y", "T")
                    .optional_output("running_mean", "T2")
                    .optional_output("running_var", "T2")
                    .optional_output("saved_mean", "S")
                    .optional_output("saved_inv_std", "S")
                    .attr("epsilon", 1e-5)
                    .attr("momentum", 0.9)
                    .attr("training_mode", int64_t{0})
                    .attr("leat_unbiased",
                          int64_t{0})  // 1: the running variance divides by n - 1, as in PyTorch
                    .type("T", kFloats)
                    .type("T1", kFloats)
                    .type("T2", kFloats)
                    .infer(infer_batch_norm)
                    .gradient(batch_norm_gradient)
                    .sharding(shard_batch_norm)
                    .tiling(tile_batch_norm)
                    .layouts([](const OpTypes& types) {
                      return blocked_where(types.inputs[0], {1, 1, false});
                    }));
  catalogue.add(Op("leat.BatchNormalizationGrad")
                    .input("dy", "T")
                    .input("x", "T")
                    .input("scale", "T1")
                    .input("saved_mean", "S")
                    .input("saved_inv_std", "S")
                    .output("dx", "T")
                    .output("dscale", "T1")
                    .output("dbias", "T1")
                    .attr("training_mode", int64_t{0})
                    .type("T", kFloats)
                    .type("T1", kFloats)
                    .type("S", kFloats)
                    .infer(infer_batch_norm_grad)
                    .tiling(tile_batch_norm_grad)
                    .layouts([](const OpTypes& types) {
                      return blocked_where(types.inputs[1], {3, 1, false});
                    }));
}

// --- LayerNormalization ---

// Returns the axis after a check that the inputs `parameters` have the shape of x from that axis
// on.
Result<int> layer_axis(const InferContext& ctx, int x, std::initializer_list<int> parameters) {
  const SymbolicShape& shape = ctx.shape(x);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis", -1), shape.rank()));
  for (int i : parameters) {
    if (!ctx.has_input(i)) continue;
    bool fits = ctx.shape(i).rank() == shape.rank() - axis;
    for (int k = 0; fits && k < ctx.shape(i).rank(); ++k)
      fits = !known_to_differ(ctx.shape(i)[k], shape[axis + k]);
    if (fits) continue;
    return ctx.error(cat("input ", i, ": expected the shape of x ", ctx.text(shape), " from axis ",
                         axis, " on, received ", ctx.text(ctx.shape(i))));
  }
  return axis;
}

Status infer_layer_norm(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const int axis, layer_axis(ctx, 0, {1, 2}));
  // The kernels compute in float, or in double for double: ONNX's other stash types are refused.
  if (attr_int(ctx.attrs(), "stash_type", 1) != 1 && ctx.dtype(0) != DType::f64) {
    return ctx.error(
        cat("stash_type: expected 1 (float), received ", attr_int(ctx.attrs(), "stash_type", 1)));
  }
  // The mean and 1 / standard deviation have size 1 along the normalized axes.
  SymbolicShape statistics = ctx.shape(0);
  for (int i = axis; i < statistics.rank(); ++i) statistics.set(i, Dim::of(1));
  DType dtype = ctx.dtype(0);
  if (has_attr(ctx.attrs(), "leat_to")) {
    const DType to = dtype_from_onnx_code(attr_int(ctx.attrs(), "leat_to"));
    if (dtype != DType::f32 || !is_16bit_float(to))
      return ctx.error("leat_to: expected bfloat16 or float16, for an x of float");
    dtype = to;
  }
  ctx.set_tensor(0, dtype, ctx.shape(0));
  ctx.set_tensor(1, statistics_dtype(ctx.dtype(0)), statistics);
  ctx.set_tensor(2, statistics_dtype(ctx.dtype(0)), statistics);
  return {};
}

Status layer_norm_gradient(GradientContext& ctx) {
  if (ctx.grad(1) != kNone || ctx.grad(2) != kNone)
    return ctx.error("the statistics have no gradient");
  if (ctx.grad(0) == kNone) return {};
  const ValueId mean = ctx.optional_output(1), inverse = ctx.optional_output(2);
  const Attrs attrs = {{"axis", attr_int(ctx.node().attrs, "axis", -1)}};
  const auto grads = ctx.emit_n("leat.LayerNormalizationGrad",
                                {ctx.grad(0), ctx.input(0), ctx.input(1), mean, inverse}, attrs, 3);
  for (int i = 0; i < 3; ++i) ctx.set_grad(i, grads[static_cast<size_t>(i)]);
  return {};
}

Status infer_layer_norm_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_same_shape(ctx, 0, 1));
  DType expected = ctx.dtype(1);
  if (has_attr(ctx.attrs(), "leat_from")) {
    expected = dtype_from_onnx_code(attr_int(ctx.attrs(), "leat_from"));
    if (ctx.dtype(1) != DType::f32 || !is_16bit_float(expected))
      return ctx.error("leat_from: expected bfloat16 or float16, for an x of float");
  }
  if (ctx.dtype(0) != expected)
    return ctx.error(cat("dy: expected ", expected, ", received ", ctx.dtype(0)));
  LEAT_ASSIGN_OR_RETURN(const int axis, layer_axis(ctx, 1, {2}));
  for (int i : {3, 4}) {
    const SymbolicShape &statistics = ctx.shape(i), &x = ctx.shape(1);
    bool fits = ctx.dtype(i) == statistics_dtype(ctx.dtype(1)) && statistics.rank() == x.rank();
    for (int k = 0; fits && k < x.rank(); ++k)
      fits = !known_to_differ(statistics[k], k < axis ? x[k] : Dim::of(1));
    if (fits) continue;
    return ctx.error(cat("input ", i, ": expected the statistics of x ", ctx.text(x), ", received ",
                         ctx.dtype(i), ctx.text(statistics)));
  }
  ctx.set_output(0, ctx.input(1));
  ctx.set_output(1, ctx.input(2));
  ctx.set_output(2, ctx.input(2));
  return {};
}

// True if axis 0 is not normalized: the rows are independent then.
bool rows_are_apart(const OpTypes& types, int x) {
  const int64_t axis = attr_int(*types.attrs, "axis", -1);
  return axis != 0 && axis != -types.inputs[static_cast<size_t>(x)].shape.rank();
}

Tiling tile_layer_norm(const OpTypes& types) {
  if (!rows_are_apart(types, 0)) return {};
  return {types.inputs[0].shape[0], 1,
          1u | (types.has_output(1) ? 2u : 0u) | (types.has_output(2) ? 4u : 0u)};
}

Tiling tile_layer_norm_grad(const OpTypes& types) {
  if (!rows_are_apart(types, 1)) return {};
  Tiling tiling{types.inputs[1].shape[0], 1u | 2u | 8u | 16u, 1};
  tiling.late_inputs = tiling.row_inputs;  // for the gradients of scale and bias
  return tiling;
}

std::vector<ShardingRule> shard_layer_norm(const std::vector<OperandType>& inputs,
                                           const std::vector<OperandType>& outputs,
                                           const Attrs& attrs) {
  if (!rows_are_apart({inputs, outputs, &attrs}, 0)) return {};
  std::vector<Spread> spreads(inputs.size());
  spreads[0] = Spread::on(0);
  return {{spreads, std::vector<Spread>(outputs.size(), Spread::on(0))}};
}

// The gradients of scale and bias are sums over rows.
std::vector<ShardingRule> shard_layer_norm_grad(const std::vector<OperandType>& inputs,
                                                const std::vector<OperandType>& outputs,
                                                const Attrs& attrs) {
  if (!rows_are_apart({inputs, outputs, &attrs}, 1)) return {};
  const Spread row = Spread::on(0);
  return {{{row, row, Spread(), row, row}, {row, Spread::sum(), Spread::sum()}}};
}

void add_layer_norm(Catalogue& catalogue) {
  catalogue.add(Op("LayerNormalization", 17)
                    .input("X", "T")
                    .input("Scale", "T")
                    .optional_input("B", "T")
                    .output("Y", "T")
                    .optional_output("Mean", "U")
                    .optional_output("InvStdDev", "U")
                    .attr("axis", int64_t{-1})
                    .attr("epsilon", 1e-5)
                    .attr("stash_type", int64_t{1})
                    .attr_optional("leat_to", "int")  // Y's dtype, on accelerators: lighten()
                    .type("T", kFloats)
                    .infer(infer_layer_norm)
                    .gradient(layer_norm_gradient)
                    .sharding(shard_layer_norm)
                    .tiling(tile_layer_norm));
  catalogue.add(Op("leat.LayerNormalizationGrad")
                    .input("dy", "D")
                    .input("x", "T")
                    .input("scale", "T")
                    .input("mean", "U")
                    .input("inv_std_dev", "U")
                    .output("dx", "T")
                    .output("dscale", "T")
                    .output("dbias", "T")
                    .attr("axis", int64_t{-1})
                    .attr_optional("leat_from", "int")  // dy's dtype, on accelerators: lighten()
                    .type("T", kFloats)
                    .type("D", kFloats)
                    .type("U", kFloats)
                    .infer(infer_layer_norm_grad)
                    .sharding(shard_layer_norm_grad)
                    .tiling(tile_layer_norm_grad));
}

}  // namespace

void register_normalization_ops(Catalogue& catalogue) {
  add_batch_norm(catalogue);
  add_layer_norm(catalogue);
}

}  // namespace leat
