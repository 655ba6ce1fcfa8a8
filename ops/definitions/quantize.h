// Functions that the definitions of leat.Quantize and leat.Dequantize share with their kernels.
#pragma once

#include "devices/base/narrow.h"
#include "ops/graph/kernel.h"

namespace leat {

// The types of stored numbers that QuantizeLinear makes.
inline constexpr DTypeSet kQuantizedTypes =
    DTypeSet::of(DType::i8, DType::u8, DType::i16, DType::u16) | kNarrowTypes;

// The least and the largest number of a quantized type; of floats those that are finite.
struct QuantizedRange {
  double least, most;
};
inline QuantizedRange quantized_range(DType dtype) {
  if (is_narrow(dtype)) {
    const NarrowFormat format = narrow_format(dtype);
    const double most = narrow_value(format, format.largest);
    if (format.is_float()) return {-most, most};
    return {format.kind == NarrowFormat::Kind::signed_int ? -most - 1 : 0, most};
  }
  const double values = dtype_size(dtype) == 1 ? 256 : 65536;
  return is_signed_int(dtype) ? QuantizedRange{-values / 2, values / 2 - 1}
                              : QuantizedRange{0, values - 1};
}

}  // namespace leat
