// Calls f with a zero of the type of a dtype: cudaErrorNotSupported where there is no such type.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

template <typename F>
cudaError_t dispatch_floats(DType dtype, F f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    default:
      return cudaErrorNotSupported;
  }
}

// Calls f with zeros of both types: equal ones, or float and one of 16 bits.
template <typename F>
cudaError_t dispatch_narrow(DType dtype, DType other, F f) {
  if (dtype == other) return dispatch_floats(dtype, [&](auto zero) { return f(zero, zero); });
  if (dtype != DType::f32) return cudaErrorNotSupported;
  if (other == DType::bf16) return f(float{}, BFloat16{});
  return other == DType::f16 ? f(float{}, Half{}) : cudaErrorNotSupported;
}

template <typename F>
cudaError_t dispatch_all(DType dtype, F f) {
  switch (dtype) {
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::boolean:
      return f(bool{});
    default:
      return dispatch_floats(dtype, f);
  }
}

// Calls f with a number of that many bytes, 1, 2, 4 or 8: for kernels that move elements.
template <typename F>
cudaError_t dispatch_size(size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace leat::cuda
