#include "ops/definitions/strided_copy.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/movement.h"
#include "ops/definitions/pad.h"
#include "ops/definitions/shapes.h"
#include "ops/definitions/slice.h"

namespace leat {
namespace {

// The copy of the part of a larger shape that begins at `begin` on `axis` and has the sizes of
// `part`.
StridedCopy part_copy(const Shape& part, const Shape& whole, int axis, int64_t begin,
                      bool part_is_input) {
  const auto part_steps = row_major_steps(part), whole_steps = row_major_steps(whole);
  StridedCopy copy;
  for (int d = 0; d < part.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    copy.add_axis(part[d], part_is_input ? part_steps[k] : whole_steps[k],
                  part_is_input ? whole_steps[k] : part_steps[k]);
  }
  (part_is_input ? copy.out_offset : copy.in_offset) =
      begin * whole_steps[static_cast<size_t>(axis)];
  return copy;
}

// The cuts of each axis of `whole`, checked against the shape that remains.
Result<std::vector<SliceCut>> kernel_cuts(const KernelSetup& setup, const Shape& whole,
                                          const Shape& part, int offset) {
  // `offset` is 1 for the gradient, whose input 0 is dy: the bounds follow one input later. The
  // copies are computed here, once, so the bounds must be constants.
  const auto present = [&](int i) { return setup.types.has_input(i + offset); };
  for (int i = 1; i <= 4; ++i) {
    if (present(i) && !setup.constant(i + offset)) {
      return unimplemented(cat(setup.subject,
                               ": expected bounds that are known at compile time, input ",
                               i + offset, " is not"));
    }
  }
  const auto starts = *known_ints(setup, 1 + offset), ends = *known_ints(setup, 2 + offset);
  const auto axes = slice_ints(setup, 3 + offset, present(3), slice_axes(starts.size()));
  const auto steps =
      slice_ints(setup, 4 + offset, present(4), std::vector<int64_t>(starts.size(), 1));
  // An axis that the node does not name is kept whole.
  std::vector<SliceCut> cuts;
  for (int64_t size : whole) cuts.push_back({0, 1, size});
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i] < 0 ? axes[i] + whole.rank() : axes[i]);
    cuts[axis] = slice_axis_cut(whole[static_cast<int>(axis)], starts[i], ends[i], steps[i]);
  }
  // Inference may have seen symbols, so the concrete sizes are compared once more.
  Shape left;
  for (const SliceCut& cut : cuts) left.push_back(cut.count);
  if (!(left == part)) {
    return invalid_argument(
        cat(setup.subject, ": expected ", left, " to be left of ", whole, ", received ", part));
  }
  return cuts;
}

// The copy between the whole and the part, in either direction. A negative step makes a negative
// stride of the whole, with the offset at the first element that is kept.
StridedCopy cut_copy(const std::vector<SliceCut>& cuts, const Shape& whole, const Shape& part,
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

}  // namespace

void StridedCopy::add_axis(int64_t size, int64_t in_step, int64_t out_step) {
  const auto d = static_cast<size_t>(rank++);
  sizes[d] = size;
  in_steps[d] = in_step;
  out_steps[d] = out_step;
}

std::array<int64_t, kMaxRank> row_major_steps(const Shape& shape) {
  std::array<int64_t, kMaxRank> steps{};
  int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    steps[static_cast<size_t>(d)] = step;
    step *= shape[d];
  }
  return steps;
}

StridedCopy collapsed(const StridedCopy& copy, bool keep_first) {
  StridedCopy out = copy;
  out.rank = 0;
  for (size_t d = 0; d < static_cast<size_t>(copy.rank); ++d) {
    const bool keep = keep_first && d == 0;
    if (copy.sizes[d] == 1 && !keep) continue;
    // The axis before this one is merged with it if it continues in memory, on both sides, where
    // this one ends.
    const int last = out.rank - 1;
    const auto l = static_cast<size_t>(std::max(last, 0));
    const bool may_merge = last >= (keep_first ? 1 : 0);
    if (may_merge && out.in_steps[l] == copy.in_steps[d] * copy.sizes[d] &&
        out.out_steps[l] == copy.out_steps[d] * copy.sizes[d]) {
      out.sizes[l] *= copy.sizes[d];
      out.in_steps[l] = copy.in_steps[d];
      out.out_steps[l] = copy.out_steps[d];
    } else {
      out.add_axis(copy.sizes[d], copy.in_steps[d], copy.out_steps[d]);
    }
  }
  if (out.rank == 0) out.add_axis(1, 0, 0);
  return out;
}

// The copy goes over the axes of the output; each has the input's step of the axis that it shows.
Result<CopyPlan> transpose_copies(const KernelSetup& setup) {
  const Shape& out = setup.output(0).shape;
  const TransposeAxes perm = permutation(setup.attrs(), out.rank());
  const auto in_steps = row_major_steps(setup.input(0).shape), out_steps = row_major_steps(out);
  StridedCopy copy;
  for (int d = 0; d < out.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    copy.add_axis(out[d], in_steps[static_cast<size_t>(perm[k])], out_steps[k]);
  }
  // If axis 0 stays in its place, a tile of rows reads the same rows.
  const bool rows = out.rank() > 0 && perm[0] == 0 && out[0] > 1;
  return CopyPlan{{copy}, rows ? out[0] : 0};
}

Result<CopyPlan> concat_copies(const KernelSetup& setup) {
  const Shape& out = setup.output(0).shape;
  const int axis = concat_axis(setup.attrs(), out.rank());
  CopyPlan plan;
  int64_t begin = 0;
  for (size_t i = 0; i < setup.types.inputs.size(); ++i) {
    const Shape& part = setup.types.inputs[i].shape;
    plan.copies.push_back(part_copy(part, out, axis, begin, true));
    plan.copies.back().input = static_cast<int>(i);
    begin += part[axis];
  }
  // Rows are complete only if the inputs are joined along another axis than 0.
  if (axis != 0 && out[0] > 1) plan.rows = out[0];
  return plan;
}

// Computes the start of each output on the axis. The sizes come from the types; for an output that
// is absent and has no type, they come from the rule of the inference.
Result<CopyPlan> split_copies(const KernelSetup& setup) {
  const Shape& in = setup.input(0).shape;
  const int axis = concat_axis(setup.attrs(), in.rank());
  const auto outputs = static_cast<int64_t>(setup.types.outputs.size());
  const auto given = known_ints(setup, 1);
  const int64_t chunk = (in[axis] + outputs - 1) / outputs;
  CopyPlan plan;
  int64_t begin = 0;
  for (size_t i = 0; i < setup.types.outputs.size(); ++i) {
    const OperandType& out = setup.types.outputs[i];
    if (out.present) {
      plan.copies.push_back(part_copy(out.shape, in, axis, begin, false));
      plan.copies.back().output = static_cast<int>(i);
      begin += out.shape[axis];
    } else {
      begin += given ? (*given)[i] : std::clamp<int64_t>(in[axis] - begin, 0, chunk);
    }
  }
  if (axis != 0 && in[0] > 1) plan.rows = in[0];
  return plan;
}

// Each axis of the output is an axis of repeats over an axis of the input.
Result<CopyPlan> tile_copies(const KernelSetup& setup) {
  const Shape &in = setup.input(0).shape, &out = setup.output(0).shape;
  const auto in_steps = row_major_steps(in), out_steps = row_major_steps(out);
  StridedCopy copy;
  for (int d = 0; d < in.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    copy.add_axis(in[d] == 0 ? 0 : out[d] / in[d], 0, out_steps[k] * in[d]);
    copy.add_axis(in[d], in_steps[k], out_steps[k]);
  }
  return CopyPlan{{copy}};
}

Result<CopyPlan> slice_copies(const KernelSetup& setup) {
  const Shape &whole = setup.input(0).shape, &part = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const auto cuts, kernel_cuts(setup, whole, part, 0));
  return CopyPlan{{cut_copy(cuts, whole, part, true)}};
}

// dx is zero except for the part that the slice kept, which is dy.
Result<CopyPlan> slice_grad_copies(const KernelSetup& setup) {
  const Shape &whole = setup.output(0).shape, &part = setup.input(0).shape;
  LEAT_ASSIGN_OR_RETURN(const auto cuts, kernel_cuts(setup, whole, part, 1));
  return CopyPlan{{cut_copy(cuts, whole, part, false)}, 0, kZeroFill};
}

// Fills the output with input 2, the constant, and copies the input into it. A negative pad cuts
// elements off instead.
Result<CopyPlan> constant_pad_copies(const KernelSetup& setup) {
  const Shape &in = setup.input(0).shape, &out = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const PadMargins m, kernel_margins(setup, in, out, 1, 3));
  const auto in_steps = row_major_steps(in), out_steps = row_major_steps(out);
  StridedCopy copy;
  for (int d = 0; d < in.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    const int64_t cut_before = std::max<int64_t>(0, -m.before[k]),
                  cut_after = std::max<int64_t>(0, -m.after[k]);
    copy.add_axis(std::max<int64_t>(0, in[d] - cut_before - cut_after), in_steps[k], out_steps[k]);
    copy.in_offset += cut_before * in_steps[k];
    copy.out_offset += std::max<int64_t>(0, m.before[k]) * out_steps[k];
  }
  return CopyPlan{{copy}, 0, 2};
}

}  // namespace leat
