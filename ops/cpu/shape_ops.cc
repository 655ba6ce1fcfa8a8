// CPU kernels of ops/definitions/shape_ops.cc.
#include "ops/definitions/shape_ops.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// Shape and Size read no element: their results follow from the concrete types.
Result<std::unique_ptr<Kernel>> make_shape(const KernelSetup& setup) {
  const Shape shape = setup.input(0).shape;
  const auto [start, end] = shape_range(setup.attrs(), shape.rank());
  return make_kernel([shape, start = start, end = end](KernelContext& context) {
    std::copy(shape.begin() + start, shape.begin() + end, context.out<int64_t>(0));
    return Progress::done;
  });
}

Result<std::unique_ptr<Kernel>> make_size(const KernelSetup& setup) {
  const int64_t elements = setup.input(0).shape.elements();
  return make_kernel([elements](KernelContext& context) {
    *context.out<int64_t>(0) = elements;
    return Progress::done;
  });
}

}  // namespace

void add_shape_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Shape", "cpu", make_shape);
  catalogue.add_kernel("Size", "cpu", make_size);
  // The bytes do not change; they are copied only if the output cannot share memory with the input.
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}) {
    catalogue.add_kernel(op, "cpu", make_copy);
  }
}

}  // namespace leat
