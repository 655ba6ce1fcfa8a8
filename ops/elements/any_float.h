// Elements of a float dtype that is known when the code runs, as double.
#pragma once

#include <cstdint>

#include "devices/base/dtype.h"
#include "devices/base/inline.h"

namespace leat {

// Element i of a small float operand (a scale, a ratio) of any float dtype. The conversion to
// double is exact. The dtype is tested in every call, so large operands are read in a loop over
// their own type instead. REQUIRES: `data` is aligned for the dtype, and is_float(dtype).
LEAT_INLINE double float_at(const void* data, DType dtype, int64_t i) {
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
LEAT_INLINE void set_float_at(void* data, DType dtype, int64_t i, double value) {
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
