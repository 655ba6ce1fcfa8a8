// CPU kernels of ops/definitions/slice.cc.
#include "ops/definitions/slice.h"

#include <algorithm>
#include <limits>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

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

Result<std::unique_ptr<Kernel>> make_slice(const KernelSetup& setup) {
  const Shape &whole = setup.input(0).shape, &part = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const auto cuts, kernel_cuts(setup, whole, part, 0));
  return make_copy_kernel(setup, {{cut_copy(cuts, whole, part, true)}});
}

// dx is zero except for the part that the slice kept, which is dy.
Result<std::unique_ptr<Kernel>> make_slice_grad(const KernelSetup& setup) {
  const Shape &whole = setup.output(0).shape, &part = setup.input(0).shape;
  LEAT_ASSIGN_OR_RETURN(const auto cuts, kernel_cuts(setup, whole, part, 1));
  return make_copy_kernel(setup, {{cut_copy(cuts, whole, part, false)}, 0, kZeroFill});
}

}  // namespace

void add_slice_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Slice", "cpu", make_slice);
  catalogue.add_kernel("leat.SliceGrad", "cpu", make_slice_grad);
}

}  // namespace leat
