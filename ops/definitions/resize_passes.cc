#include "ops/definitions/resize_passes.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// The values of the operands; an error if one is not known.
Result<ResizeOperands> resize_operands(const KernelSetup& setup) {
  ResizeOperands operands;
  const auto read = [&](int i, auto&& each) -> Status {
    if (!setup.types.has_input(i) || setup.input(i).shape.elements() == 0) return {};
    const Tensor* value = setup.constant(i);
    if (!value) {
      return invalid_argument(cat(setup.subject, ": input ", i,
                                  ": expected a value that is known when the plan is made"));
    }
    for (int64_t k = 0; k < value->elements(); ++k) each(*value, k);
    return {};
  };
  LEAT_RETURN_IF_ERROR(
      read(1, [&](const Tensor& t, int64_t k) { operands.roi.push_back(t.at(k)); }));
  LEAT_RETURN_IF_ERROR(
      read(2, [&](const Tensor& t, int64_t k) { operands.scales.push_back(t.at(k)); }));
  LEAT_RETURN_IF_ERROR(
      read(3, [&](const Tensor& t, int64_t k) { operands.sizes.push_back(t.int_at(k)); }));
  return operands;
}

}  // namespace

Result<ResizeSpec> resize_spec_of(const KernelSetup& setup, const Shape& input,
                                  const Shape& output) {
  LEAT_ASSIGN_OR_RETURN(const ResizeOperands operands, resize_operands(setup));
  Shape shape;
  auto spec = resize_spec(setup.attrs(), input, operands, shape);
  if (!spec.ok()) return invalid_argument(cat(setup.subject, ": ", spec.status().message()));
  if (shape == output) return spec;
  return invalid_argument(
      cat(setup.subject, ": expected an output of ", shape, ", received ", output));
}

ResizePasses resize_passes(const ResizeSpec& spec, const Shape& input, const Shape& output,
                           bool backward) {
  ResizePasses passes;
  const int rank = input.rank(), lead = spec.axes.empty() ? rank : spec.axes[0].axis;
  passes.blocks = input.elements(0, lead);
  const Shape& from = backward ? output : input;
  const Shape& to = backward ? input : output;
  passes.in_block = from.elements(lead, rank);
  passes.out_block = to.elements(lead, rank);
  // Growing axes are cheapest at the end of the block first, shrinking ones the other way round.
  std::vector<ResizedAxis> order(spec.axes);
  if (!backward) std::reverse(order.begin(), order.end());
  std::vector<int64_t> sizes(from.begin(), from.end());
  for (const ResizedAxis& axis : order) {
    const AxisWeights forward = axis_weights(spec, axis);
    ResizePass pass;
    pass.weights = backward ? transposed(forward, axis.in) : forward;
    for (int d = lead; d < axis.axis; ++d) pass.before *= sizes[static_cast<size_t>(d)];
    for (int d = axis.axis + 1; d < rank; ++d) pass.after *= sizes[static_cast<size_t>(d)];
    pass.in = sizes[static_cast<size_t>(axis.axis)];
    pass.out = backward ? axis.in : axis.out;
    sizes[static_cast<size_t>(axis.axis)] = pass.out;
    passes.largest = std::max(passes.largest, pass.elements());
    passes.list.push_back(std::move(pass));
  }
  passes.largest = std::max({passes.largest, passes.in_block, passes.out_block});
  return passes;
}

}  // namespace leat
