// leat.Dropout, leat.BatchNorm and leat.LayerNorm.
#include "devices/base/text.h"
#include "ops/layers/layer.h"

namespace leat {
namespace {

// Checks an attribute that must be in [0, 1).
Status check_fraction(const InferContext& ctx, std::string_view name) {
  const double value = attr_float(ctx.attrs(), name);
  if (value >= 0 && value < 1) return {};
  return ctx.error(
      cat("attribute '", name, "': expected 0 <= ", name, " < 1, received ", shortest(value)));
}

// An epsilon of 0 would divide by zero where all elements are equal.
Status check_epsilon(const InferContext& ctx) {
  const double epsilon = attr_float(ctx.attrs(), "epsilon");
  if (epsilon > 0 && epsilon < 1) return {};
  return ctx.error(
      cat("attribute 'epsilon': expected 0 < epsilon < 1, received ", shortest(epsilon)));
}

Status infer_dropout(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_fraction(ctx, "rate"));
  return infer_same_as_first(ctx);
}

// All layers share one training flag, so that set_training() finds it.
ValueId expand_dropout(LayerContext& ctx) {
  const float rate = static_cast<float>(attr_float(ctx.attrs(), "rate"));
  const ValueId ratio = ctx.emit_constant(Tensor::scalar<float>(rate), "ratio");
  return ctx.emit("Dropout", {ctx.input(), ratio, ctx.training()});
}

Status infer_batch_norm(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_fraction(ctx, "momentum"));
  LEAT_RETURN_IF_ERROR(check_epsilon(ctx));
  if (ctx.shape(0).rank() < 2) {
    return ctx.error(cat("expected [N,C,...], received ", ctx.text(ctx.shape(0))));
  }
  LEAT_RETURN_IF_ERROR(fixed_size(ctx, 1, "channels").status());
  return infer_same_as_first(ctx);
}

// gamma and beta are trained. The moving statistics are variables that the layer itself assigns,
// from the outputs 1 and 2 of its node.
ValueId expand_batch_norm(LayerContext& ctx) {
  const int64_t channels = ctx.input_type().shape[1].factor;
  const auto variable = [&](std::string_view suffix, const char* initializer, bool trainable) {
    return ctx.variable({.suffix = suffix,
                         .shape = {channels},
                         .initializer = initializer,
                         .trainable = trainable,
                         .dtype = ctx.input_type().dtype});
  };
  const ValueId gamma = variable("gamma", "ones", true);
  const ValueId beta = variable("beta", "zeros", true);
  const ValueId mean = variable("moving_mean", "zeros", false);
  const ValueId variance = variable("moving_variance", "ones", false);
  const ValueId y = ctx.emit("BatchNormalization", {ctx.input(), gamma, beta, mean, variance},
                             {{"epsilon", attr_float(ctx.attrs(), "epsilon")},
                              {"momentum", attr_float(ctx.attrs(), "momentum")},
                              {"training_mode", int64_t{1}}});
  ctx.assign("moving_mean", ctx.extra_output(y, 1, "moving_mean/next"));
  ctx.assign("moving_variance", ctx.extra_output(y, 2, "moving_variance/next"));
  return y;
}

// gamma and beta have the shape of x from `axis` on, so these sizes must be known.
Status infer_layer_norm(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_epsilon(ctx));
  const int rank = ctx.shape(0).rank();
  LEAT_ASSIGN_OR_RETURN(const int axis, normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), rank));
  for (int i = axis; i < rank; ++i) {
    LEAT_RETURN_IF_ERROR(fixed_size(ctx, i, "features").status());
  }
  return infer_same_as_first(ctx);
}

ValueId expand_layer_norm(LayerContext& ctx) {
  const SymbolicShape& shape = ctx.input_type().shape;
  const int64_t axis = attr_int(ctx.attrs(), "axis");
  std::vector<int64_t> sizes;
  // A negative axis counts from the end.
  for (int64_t i = axis < 0 ? axis + shape.rank() : axis; i < shape.rank(); ++i) {
    sizes.push_back(shape[static_cast<int>(i)].factor);
  }
  const DType dtype = ctx.input_type().dtype;
  const ValueId gamma =
      ctx.variable({.suffix = "gamma", .shape = sizes, .initializer = "ones", .dtype = dtype});
  const ValueId beta =
      ctx.variable({.suffix = "beta", .shape = sizes, .initializer = "zeros", .dtype = dtype});
  return ctx.emit("LayerNormalization", {ctx.input(), gamma, beta},
                  {{"axis", axis}, {"epsilon", attr_float(ctx.attrs(), "epsilon")}});
}

// The output has the type of the input.
Op same_type(std::string_view name) {
  return Op(name).input("x", "T").output("y", "T").type("T", kFloats).stateful();
}

}  // namespace

std::vector<Layer> normalization_layers() {
  return {
      {same_type("leat.Dropout").attr_required("rate", "float").infer(infer_dropout),
       expand_dropout},
      {same_type("leat.BatchNorm")
           .attr("momentum", 0.99)
           .attr("epsilon", 1e-3)
           .infer(infer_batch_norm),
       expand_batch_norm},
      {same_type("leat.LayerNorm")
           .attr("axis", int64_t{-1})
           .attr("epsilon", 1e-3)
           .infer(infer_layer_norm),
       expand_layer_norm},
  };
}

}  // namespace leat
