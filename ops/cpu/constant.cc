// CPU kernels of ops/definitions/constant.cc.
#include "ops/definitions/constant.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

// The kernel keeps the value and copies it into the output whenever it runs.
Result<std::unique_ptr<Kernel>> make_constant(const KernelSetup& setup) {
  const Tensor value = constant_value(setup.attrs()).value();
  return make_kernel([value](KernelContext& context) {
    if (value.bytes() > 0) std::memcpy(context.outputs[0], value.raw(), value.bytes());
    return Progress::done;
  });
}

// Fills the output with one value. The shape is concrete by now, so the input is not read.
Result<std::unique_ptr<Kernel>> make_constant_of_shape(const KernelSetup& setup) {
  const Tensor value = fill_value(setup.attrs());
  const int64_t elements = setup.output(0).shape.elements();
  return make_kernel([value, elements](KernelContext& context) {
    dispatch_dtype(value.dtype(), [&](auto tag) {
      using T = decltype(tag);
      std::fill_n(static_cast<T*>(context.outputs[0]), elements, *value.data<T>());
    });
    return Progress::done;
  });
}

}  // namespace

void add_constant_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Constant", "cpu", make_constant);
  catalogue.add_kernel("ConstantOfShape", "cpu", make_constant_of_shape);
}

}  // namespace leat
