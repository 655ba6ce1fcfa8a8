// CPU kernels of ops/definitions/movement.cc.
#include "ops/definitions/movement.h"

#include <algorithm>
#include <numeric>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/elementwise.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// The copy goes over the axes of the output; each has the input's step of the axis that it shows.
Result<std::unique_ptr<Kernel>> make_transpose(const KernelSetup& setup) {
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
  return make_copy_kernel(setup, {{copy}, rows ? out[0] : 0});
}

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

Result<std::unique_ptr<Kernel>> make_concat(const KernelSetup& setup) {
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
  return make_copy_kernel(setup, std::move(plan));
}

// Computes the start of each output on the axis. The sizes come from the types; for an output that
// is absent and has no type, they come from the rule of the inference.
Result<std::unique_ptr<Kernel>> make_split(const KernelSetup& setup) {
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
  KernelSetup any = setup;  // output 0 may be absent
  any.types.outputs[0].dtype = setup.input(0).dtype;
  return make_copy_kernel(any, std::move(plan));
}

// --- Expand and Tile -------------------------------------------------------------------------

// Expand is a broadcast: the elementwise kernel reads the input with steps of 0.
struct SameOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, const double*) {
    return a;
  }
};

Result<std::unique_ptr<Kernel>> make_expand(const KernelSetup& setup) {
  KernelSetup one = setup;
  one.types = only_input(setup.types);
  return make_elementwise(one, dispatch_dtype(setup.output(0).dtype, [](auto tag) -> Loop {
                            return elementwise::unary_loop<SameOf, decltype(tag)>;
                          }));
}

// Each axis of the output is an axis of repeats over an axis of the input.
Result<std::unique_ptr<Kernel>> make_tile(const KernelSetup& setup) {
  const Shape &in = setup.input(0).shape, &out = setup.output(0).shape;
  const auto in_steps = row_major_steps(in), out_steps = row_major_steps(out);
  StridedCopy copy;
  for (int d = 0; d < in.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    copy.add_axis(in[d] == 0 ? 0 : out[d] / in[d], 0, out_steps[k] * in[d]);
    copy.add_axis(in[d], in_steps[k], out_steps[k]);
  }
  return make_copy_kernel(setup, {{copy}});
}

}  // namespace

void add_movement_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Transpose", "cpu", make_transpose);
  catalogue.add_kernel("Concat", "cpu", make_concat);
  catalogue.add_kernel("Split", "cpu", make_split);
  catalogue.add_kernel("Expand", "cpu", make_expand);
  catalogue.add_kernel("Tile", "cpu", make_tile);
}

}  // namespace leat
