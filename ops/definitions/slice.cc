// Slice and its gradient. Neither has row tiles for a chain, because types do not show whether an
// axis is only reversed.
#include "ops/definitions/slice.h"

#include <algorithm>
#include <limits>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// The operands of a Slice, by axis. Operand i of Slice is operand i + offset of its gradient.
struct Bounds {
  std::vector<int64_t> starts, steps;
  SizeValues ends;
  std::vector<int> axes;
  bool known = false;  // false: only the axes are known
};

// Returns nothing if the axes are not known either.
Result<std::optional<Bounds>> infer_bounds(const InferContext& ctx, int rank, int offset) {
  LEAT_ASSIGN_OR_RETURN(const int length, vector_length(ctx, 1 + offset));
  const auto count = static_cast<size_t>(length);
  for (int i = 2; i <= 4; ++i) {
    if (!ctx.has_input(i + offset)) continue;
    LEAT_ASSIGN_OR_RETURN(const int other, vector_length(ctx, i + offset));
    // ONNX asks for lists of one length; `length` is that of starts.
    if (other != length) {
      return ctx.error(cat("starts, ends, axes and steps: expected equal lengths, received ",
                           length, " and ", other));
    }
  }
  const bool has_axes = ctx.has_input(3 + offset), has_steps = ctx.has_input(4 + offset);
  if (has_axes && !ctx.constant(3 + offset)) return std::optional<Bounds>();
  Bounds bounds;
  LEAT_ASSIGN_OR_RETURN(
      bounds.axes,
      normalize_axes(ctx, slice_ints(ctx, 3 + offset, has_axes, slice_axes(count)), rank));
  // The axes alone help already: every other axis keeps its size.
  const auto ends = known_sizes(ctx, 2 + offset);
  bounds.known = ctx.constant(1 + offset) && ends && (!has_steps || ctx.constant(4 + offset));
  if (!bounds.known) return std::optional(bounds);
  bounds.starts = *known_ints(ctx, 1 + offset);
  bounds.ends = *ends;
  bounds.steps = slice_ints(ctx, 4 + offset, has_steps, std::vector<int64_t>(count, 1));
  if (std::count(bounds.steps.begin(), bounds.steps.end(), 0) > 0)
    return ctx.error("steps: expected no 0");
  return std::optional(bounds);
}

// The size of a slice of a size that may be a symbol.
Dim sliced_size(InferContext& ctx, Dim size, int64_t start, std::optional<Dim> to, int64_t step) {
  if (to == size && start == 0 && step == 1) return size;
  if (!to || !to->is_constant()) return Dim::of_symbol(ctx.fresh_symbol());
  const int64_t end = to->factor;
  if (size.is_constant()) return Dim::of(slice_axis_cut(size.factor, start, end, step).count);
  constexpr int64_t kFar =
      std::numeric_limits<int32_t>::max();  // exporters write this for "the end"
  const bool whole =
      (step == 1 && start == 0 && end >= kFar) || (step == -1 && start == -1 && end <= -kFar);
  return whole ? size : Dim::of_symbol(ctx.fresh_symbol());
}

Status infer_slice(InferContext& ctx) {
  const SymbolicShape& in = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const auto bounds, infer_bounds(ctx, in.rank(), 0));
  if (!bounds) {
    LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, fresh_shape(ctx, in.rank()));
    ctx.set_tensor(0, ctx.dtype(0), shape);
    return {};
  }
  SymbolicShape out = in;
  for (size_t i = 0; i < bounds->axes.size(); ++i) {
    const int axis = bounds->axes[i];
    out.set(axis, bounds->known ? sliced_size(ctx, in[axis], bounds->starts[i], bounds->ends[i],
                                              bounds->steps[i])
                                : Dim::of_symbol(ctx.fresh_symbol()));
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

Status infer_slice_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, infer_shape_or_like(ctx, 1));
  if (shape.rank() != ctx.shape(0).rank()) {
    return ctx.error(cat("expected a gradient of the rank of ", ctx.text(shape), ", received ",
                         ctx.text(ctx.shape(0))));
  }
  LEAT_ASSIGN_OR_RETURN(const auto bounds, infer_bounds(ctx, shape.rank(), 1));
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

// The gradient writes dy into zeros of the data's shape, at the places that the same bounds name.
Status slice_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs = {ctx.grad(0), shape_or_like(ctx, ctx.input(0))};
  for (int i = 1; i <= 4; ++i) inputs.push_back(ctx.input(i));
  ctx.set_grad(0, ctx.emit("leat.SliceGrad", inputs));
  return {};
}

// Types do not show which axes are whole.
std::vector<ShardingRule> shard_slice(const std::vector<OperandType>& inputs,
                                      const std::vector<OperandType>&, const Attrs&) {
  return with_whole_operands({{{Spread::sum()}, {Spread::sum()}}}, inputs.size());
}

}  // namespace

void register_slice_ops(Catalogue& catalogue) {
  catalogue.add(Op("Slice", 13)
                    .input("data", "T")
                    .input("starts", "Tind")
                    .input("ends", "Tind")
                    .optional_input("axes", "Tind")
                    .optional_input("steps", "Tind")
                    .output("output", "T")
                    .type("T", kStoredTypes)
                    .type("Tind", kIndexTypes)
                    .moves()
                    .infer(infer_slice)
                    .gradient(slice_gradient)
                    .sharding(shard_slice));
  catalogue.add(Op("leat.SliceGrad")
                    .input("dY", "T")
                    .input("shape", "S")
                    .input("starts", "Tind")
                    .input("ends", "Tind")
                    .optional_input("axes", "Tind")
                    .optional_input("steps", "Tind")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .type("S", kShapeOrLike)
                    .type("Tind", kIndexTypes)
                    .infer(infer_slice_grad)
                    .sharding(shard_slice));
}

}  // namespace leat
