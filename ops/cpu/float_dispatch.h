// Selection of a kernel's template instance by a float dtype.
#pragma once

#include <memory>

#include "devices/core/tensor.h"
#include "ops/graph/kernel.h"

namespace leat {

// Calls make(T{}) with the C++ type of `dtype`. REQUIRES: is_float(dtype), which validate() checks.
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

// Element i of a small float operand (a scale, a ratio) of any float dtype.
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
