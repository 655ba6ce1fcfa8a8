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

// Element i of a small float operand (a scale, a ratio) of any float dtype. The conversion to
// double is exact. The dtype is tested in every call, so large operands are read in a loop over
// their own type instead. REQUIRES: `data` is aligned for the dtype, and is_float(dtype).
inline double float_at(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::f64:
      return static_cast<const double*>(data)[i];
    case DType::f16:
      return to_float(static_cast<const Half*>(data)[i]);
    default:
      return to_float(static_cast<const BFloat16*>(data)[i]);
  }
}
// Stores `value` as element i, rounded to nearest, ties to even. For f16 and bf16 it is rounded
// twice: to float and then to 16 bits. A value out of range becomes an infinity. REQUIRES: as
// float_at().
inline void set_float_at(void* data, DType dtype, int64_t i, double value) {
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case DType::f64:
      static_cast<double*>(data)[i] = value;
      break;
    case DType::f16:
      static_cast<Half*>(data)[i] = to_half(static_cast<float>(value));
      break;
    default:
      static_cast<BFloat16*>(data)[i] = to_bfloat16(static_cast<float>(value));
      break;
  }
}

}  // namespace leat
