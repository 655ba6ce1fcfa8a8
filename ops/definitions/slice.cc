// Slice and its gradient. Neither is cut into rows for a chain: whether an axis is only reversed
// does not show in the types.
#include <algorithm>
#include <limits>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// What is left of one axis: count elements, from start, every step-th.
struct Cut {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// As numpy slices: negative bounds count from the end, and bounds beyond the ends are clamped.
Cut cut_axis(int64_t size, int64_t start, int64_t end, int64_t step) {
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  if (start < 0) start += size;
  if (end < 0) end += size;
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  start = std::clamp(start, low, high);
  end = std::clamp(end, low, high);
  const int64_t distance = step > 0 ? end - start : start - end;
  if (distance <= 0) return {0, 1, 0};
  return {start, step, (distance - 1) / (step > 0 ? step : -step) + 1};
}

// The operands of a Slice, by axis. Operand i of Slice is operand i + offset of its gradient.
struct Bounds {
  std::vector<int64_t> starts, ends, steps;
  std::vector<int> axes;
  bool known = false;  // else only the axes are
};

template <typename Context>
std::vector<int64_t> ints_or(const Context& ctx, int i, bool present,
                             std::vector<int64_t> fallback) {
  if (!present) return fallback;
  return known_ints(ctx, i).value_or(std::vector<int64_t>());
}

std::vector<int64_t> first_axes(size_t count) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

// Empty if not even the axes are known.
Result<std::optional<Bounds>> infer_bounds(const InferContext& ctx, int rank, int offset) {
  LEAT_ASSIGN_OR_RETURN(const int length, vector_length(ctx, 1 + offset));
  const auto count = static_cast<size_t>(length);
  for (int i = 2; i <= 4; ++i) {
    if (!ctx.has_input(i + offset)) continue;
    LEAT_ASSIGN_OR_RETURN(const int other, vector_length(ctx, i + offset));
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
      normalize_axes(ctx, ints_or(ctx, 3 + offset, has_axes, first_axes(count)), rank));
  bounds.known = ctx.constant(1 + offset) && ctx.constant(2 + offset) &&
                 (!has_steps || ctx.constant(4 + offset));
  if (!bounds.known) return std::optional(bounds);
  bounds.starts = *known_ints(ctx, 1 + offset);
  bounds.ends = *known_ints(ctx, 2 + offset);
  bounds.steps = ints_or(ctx, 4 + offset, has_steps, std::vector<int64_t>(count, 1));
  if (std::count(bounds.steps.begin(), bounds.steps.end(), 0) > 0)
    return ctx.error("steps: expected no 0");
  return std::optional(bounds);
}

// What is left of a size that may be a symbol.
Dim sliced_size(InferContext& ctx, Dim size, int64_t start, int64_t end, int64_t step) {
  if (size.is_constant()) return Dim::of(cut_axis(size.factor, start, end, step).count);
  constexpr int64_t kFar =
      std::numeric_limits<int32_t>::max();  // what exporters write for "the end"
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

// The cuts of each axis of `whole`, checked against the shape of what they leave.
Result<std::vector<Cut>> kernel_cuts(const KernelSetup& setup, const Shape& whole,
                                     const Shape& part, int offset) {
  const auto present = [&](int i) { return setup.types.has_input(i + offset); };
  for (int i = 1; i <= 4; ++i) {
    if (present(i) && !setup.constant(i + offset)) {
      return unimplemented(cat(setup.subject,
                               ": expected bounds that are known at compile time, input ",
                               i + offset, " is not"));
    }
  }
  const auto starts = *known_ints(setup, 1 + offset), ends = *known_ints(setup, 2 + offset);
  const auto axes = ints_or(setup, 3 + offset, present(3), first_axes(starts.size()));
  const auto steps = ints_or(setup, 4 + offset, present(4), std::vector<int64_t>(starts.size(), 1));
  std::vector<Cut> cuts;
  for (int64_t size : whole) cuts.push_back({0, 1, size});
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + whole.rank() : axes[i]);
    cuts[axis] = cut_axis(whole[static_cast<int>(axis)], starts[i], ends[i], steps[i]);
  }
  Shape left;
  for (const Cut& cut : cuts) left.push_back(cut.count);
  if (!(left == part)) {
    return invalid_argument(
        cat(setup.subject, ": expected ", left, " to be left of ", whole, ", received ", part));
  }
  return cuts;
}

StridedCopy cut_copy(const std::vector<Cut>& cuts, const Shape& whole, const Shape& part,
                     bool from_whole) {
  const auto whole_steps = row_major_steps(whole), part_steps = row_major_steps(part);
  StridedCopy copy;
  int64_t offset = 0;
  for (size_t d = 0; d < cuts.size(); ++d) {
    const int64_t step = whole_steps[d] * cuts[d].step;
    offset += whole_steps[d] * cuts[d].start;
    copy.add_axis(cuts[d].count, from_whole ? step : part_steps[d],
                  from_whole ? part_steps[d] : step);
  }
  (from_whole ? copy.in_offset : copy.out_offset) = offset;
  return copy;
}

Result<std::unique_ptr<Kernel>> make_slice(const KernelSetup& setup) {
  const Shape &whole = setup.input(0).shape, &part = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const auto cuts, kernel_cuts(setup, whole, part, 0));
  return make_copy_kernel(setup, {{cut_copy(cuts, whole, part, true)}});
}

Result<std::unique_ptr<Kernel>> make_slice_grad(const KernelSetup& setup) {
  const Shape &whole = setup.output(0).shape, &part = setup.input(0).shape;
  LEAT_ASSIGN_OR_RETURN(const auto cuts, kernel_cuts(setup, whole, part, 1));
  return make_copy_kernel(setup, {{cut_copy(cuts, whole, part, false)}, 0, kZeroFill});
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

Status slice_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs = {ctx.grad(0), shape_or_like(ctx, ctx.input(0))};
  for (int i = 1; i <= 4; ++i) inputs.push_back(ctx.input(i));
  ctx.set_grad(0, ctx.emit("leat.SliceGrad", inputs));
  return {};
}

// Which axes are left whole does not show in the types.
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
                    .type("T", kAllTypes)
                    .type("Tind", kIndexTypes)
                    .infer(infer_slice)
                    .gradient(slice_gradient)
                    .sharding(shard_slice)
                    .kernel("cpu", make_slice));
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
                    .sharding(shard_slice)
                    .kernel("cpu", make_slice_grad));
}

}  // namespace leat
