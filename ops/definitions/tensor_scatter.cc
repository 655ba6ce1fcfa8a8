// TensorScatter, which writes new elements of sequences into a cache, and leat.TensorScatterGrad.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The axis of the sequences, which is not that of the batch.
Result<int> sequence_axis(const InferContext& ctx, int rank) {
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis", -2), rank));
  if (axis == 0) return ctx.error("axis: expected another one than 0, which is the batch's");
  return axis;
}

Status check_cache_mode(const InferContext& ctx) {
  const std::string mode = attr_string(ctx.attrs(), "mode", "linear");
  if (mode == "linear" || mode == "circular") return {};
  return ctx.error(cat("mode: expected linear or circular, received '", mode, "'"));
}

Status check_write_indices(const InferContext& ctx, int i, Dim batch) {
  if (!ctx.has_input(i)) return {};
  const SymbolicShape &indices = ctx.shape(i), expected{batch};
  if (indices.rank() == 1 && !known_to_differ(indices, expected)) return {};
  return ctx.error(cat("write_indices: expected one for each entry of the batch, ",
                       ctx.text(expected), ", received ", ctx.text(indices)));
}

// True if the sizes may be those of an update of the cache.
bool updates(const SymbolicShape& cache, const SymbolicShape& update, int axis) {
  if (update.rank() != cache.rank()) return false;
  for (int d = 0; d < cache.rank(); ++d) {
    if (d == axis && cache[d].is_constant() && update[d].is_constant()) {
      if (update[d].factor > cache[d].factor) return false;
    } else if (d != axis && known_to_differ(SymbolicShape{cache[d]}, SymbolicShape{update[d]})) {
      return false;
    }
  }
  return true;
}

Status infer_tensor_scatter(InferContext& ctx) {
  const SymbolicShape &cache = ctx.shape(0), &update = ctx.shape(1);
  LEAT_RETURN_IF_ERROR(check_cache_mode(ctx));
  LEAT_ASSIGN_OR_RETURN(const int axis, sequence_axis(ctx, cache.rank()));
  if (!updates(cache, update, axis)) {
    return ctx.error(cat("expected an update with the sizes of the cache, and no more along axis ",
                         axis, ": the cache is ", ctx.text(cache), ", the update is ",
                         ctx.text(update)));
  }
  LEAT_RETURN_IF_ERROR(check_write_indices(ctx, 2, cache[0]));
  return infer_same_as_first(ctx);
}

// Inputs: dy, a shape or a value of the shape of the update, the indices. Of the shape, only the
// size along the axis is read: the others are those of dy, and so a shard may have the whole shape.
Status infer_tensor_scatter_grad(InferContext& ctx) {
  const SymbolicShape& dy = ctx.shape(0);
  LEAT_RETURN_IF_ERROR(check_cache_mode(ctx));
  LEAT_ASSIGN_OR_RETURN(const int axis, sequence_axis(ctx, dy.rank()));
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape given, infer_shape_or_like(ctx, 1));
  if (given.rank() != dy.rank())
    return ctx.error(
        cat("shape: expected one of the rank of ", ctx.text(dy), ", received ", ctx.text(given)));
  LEAT_RETURN_IF_ERROR(check_write_indices(ctx, 2, dy[0]));
  SymbolicShape update = dy;
  update.set(axis, given[axis]);
  ctx.set_output(0, ctx.input(0));
  ctx.set_tensor(1, ctx.dtype(0), update);
  return {};
}

Status tensor_scatter_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs{ctx.grad(0), shape_or_like(ctx, ctx.input(1))};
  if (ctx.input(2) != kNone) inputs.push_back(ctx.input(2));
  const auto grads = ctx.emit_n("leat.TensorScatterGrad", inputs, ctx.node().attrs, 2);
  ctx.set_grad(0, grads[0]);
  ctx.set_grad(1, grads[1]);
  return {};
}

std::vector<ShardingRule> shard_caches(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs, const Attrs&) {
  ShardingRule rule{std::vector<Spread>(inputs.size(), Spread::on(0)),
                    std::vector<Spread>(outputs.size(), Spread::on(0))};
  if (outputs.size() > 1 && !is_float(inputs[1].dtype)) rule.inputs[1] = {};
  return {rule};
}

Op with_cache_attributes(Op op) {
  return op.optional_input("write_indices", "int64")
      .attr("mode", std::string("linear"))
      .attr("axis", int64_t{-2})
      .sharding(shard_caches);
}

}  // namespace

void register_tensor_scatter_ops(Catalogue& catalogue) {
  catalogue.add(with_cache_attributes(Op("TensorScatter", 24)
                                          .input("past_cache", "T")
                                          .input("update", "T")
                                          .output("present_cache", "T")
                                          .type("T", kAllTypes))
                    .in_place(0, 0)
                    .moves()
                    .infer(infer_tensor_scatter)
                    .gradient(tensor_scatter_gradient));
  catalogue.add(with_cache_attributes(Op("leat.TensorScatterGrad")
                                          .input("dY", "T")
                                          .input("shape", "S")
                                          .output("dpast_cache", "T")
                                          .output("dupdate", "T")
                                          .type("T", kFloats)
                                          .type("S", kShapeOrLike))
                    .in_place(0, 0)
                    .infer(infer_tensor_scatter_grad));
}

}  // namespace leat
