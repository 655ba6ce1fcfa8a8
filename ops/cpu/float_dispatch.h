// Selection of a kernel's template instance by a float dtype, and access to single elements of
// operands whose dtype is known at run time only.
//
// Kernels that have a loop over one dtype T are class templates. Their factory selects the
// instance:
//
//   Result<std::unique_ptr<Kernel>> make_my_kernel(const KernelSetup& setup) {
//     return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
//       return std::make_unique<MyKernel<T>>(setup);
//     });
//   }
#pragma once

#include <memory>

#include "devices/core/tensor.h"
#include "ops/elements/any_float.h"
#include "ops/graph/kernel.h"

namespace leat {

// Calls make(T{}) with the C++ type of `dtype` (float, double, Half or BFloat16) and returns its
// kernel; the value of the argument means nothing. make is called exactly once, before this
// function returns, so it may capture by reference. REQUIRES: is_float(dtype), which validate()
// checks. Any other dtype would be taken for bf16. dispatch_dtype() in devices/core/tensor.h is the
// same for all dtypes.
template <typename F>
std::unique_ptr<Kernel> dispatch_float(DType dtype, F&& make) {
  switch (dtype) {
    case DType::f32:
      return make(float{});
    case DType::f64:
      return make(double{});
    case DType::f16:
      return make(Half{});
    default:
      return make(BFloat16{});
  }
}

}  // namespace leat
