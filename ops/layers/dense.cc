// leat.Dense and leat.Embedding.
#include "devices/base/text.h"
#include "ops/layers/layer.h"

namespace leat {
namespace {

// The weights are [features, units], so the last axis must be known; all others may be symbols.
Status infer_dense(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_names(ctx));
  const int rank = ctx.shape(0).rank();
  if (rank < 2) {
    return ctx.error(
        cat("expected a batch of rows, [N,features] at least, received ", ctx.text(ctx.shape(0))));
  }
  LEAT_RETURN_IF_ERROR(fixed_size(ctx, rank - 1, "features").status());
  LEAT_ASSIGN_OR_RETURN(const int64_t units, positive(ctx, "units"));
  SymbolicShape shape = ctx.shape(0);
  shape.set(rank - 1, Dim::of(units));
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

// A dense layer of rows with a bias is a Gemm; any other is a MatMul (and an Add).
ValueId expand_dense(LayerContext& ctx) {
  const SymbolicShape& shape = ctx.input_type().shape;
  const int64_t in = shape[shape.rank() - 1].factor, units = attr_int(ctx.attrs(), "units");
  const DType dtype = ctx.input_type().dtype;
  const ValueId kernel =
      ctx.variable({.suffix = "kernel",
                    .shape = {in, units},
                    .initializer = attr_string(ctx.attrs(), "kernel_initializer"),
                    .fan_in = in,
                    .fan_out = units,
                    .dtype = dtype});
  const bool linear = attr_string(ctx.attrs(), "activation") == "linear";
  // Without an activation, the last node is the layer's output, which the caller names.
  const std::string_view sum = linear ? "" : "sum";
  if (attr_int(ctx.attrs(), "use_bias") == 0) {
    return ctx.activate(ctx.emit("MatMul", {ctx.input(), kernel}, {}, sum), -1);
  }
  const ValueId bias = ctx.variable({.suffix = "bias",
                                     .shape = {units},
                                     .initializer = attr_string(ctx.attrs(), "bias_initializer"),
                                     .fan_in = units,
                                     .fan_out = units,
                                     .dtype = dtype});
  // A Gemm adds the bias to its product in one op, but takes matrices only.
  if (shape.rank() == 2) {
    return ctx.activate(ctx.emit("Gemm", {ctx.input(), kernel, bias}, {}, sum), -1);
  }
  const ValueId product = ctx.emit("MatMul", {ctx.input(), kernel}, {}, "product");
  return ctx.activate(ctx.emit("Add", {product, bias}, {}, sum), -1);
}

// Each id becomes a row of `output_dim` floats: the shape gains an axis.
Status infer_embedding(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_names(ctx));
  LEAT_RETURN_IF_ERROR(positive(ctx, "input_dim").status());
  LEAT_ASSIGN_OR_RETURN(const int64_t width, positive(ctx, "output_dim"));
  SymbolicShape shape = ctx.shape(0);
  if (shape.rank() == kMaxRank) return ctx.error("expected ids of rank 7 at most");
  shape.push_back(Dim::of(width));
  ctx.set_tensor(0, DType::f32, shape);
  return {};
}

// The table is a variable and its read a Gather, which the compiler can turn into reads of rows.
ValueId expand_embedding(LayerContext& ctx) {
  const int64_t ids = attr_int(ctx.attrs(), "input_dim");
  const int64_t width = attr_int(ctx.attrs(), "output_dim");
  const ValueId table = ctx.variable({.suffix = "embeddings",
                                      .shape = {ids, width},
                                      .initializer = attr_string(ctx.attrs(), "kernel_initializer"),
                                      .fan_in = ids,
                                      .fan_out = width});
  return ctx.emit("Gather", {table, ctx.input()}, {{"axis", int64_t{0}}});
}

}  // namespace

std::vector<Layer> dense_layers() {
  return {
      {Op("leat.Dense")
           .input("x", "T")
           .output("y", "T")
           .type("T", kFloats)
           .attr_required("units", "int")
           .attr("activation", std::string("linear"))
           .attr("use_bias", int64_t{1})
           .attr("kernel_initializer", std::string("glorot_uniform"))
           .attr("bias_initializer", std::string("zeros"))
           .stateful()
           .infer(infer_dense),
       expand_dense},
      {Op("leat.Embedding")
           .input("ids", "I")
           .output("y", "float")
           .type("I", kIndexTypes)
           .attr_required("input_dim", "int")
           .attr_required("output_dim", "int")
           .attr("kernel_initializer", std::string("uniform"))
           .stateful()
           .infer(infer_embedding),
       expand_embedding},
  };
}

}  // namespace leat
