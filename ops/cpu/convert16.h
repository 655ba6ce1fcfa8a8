// Conversions between f32 and the 16-bit floats, f16 and bf16, over contiguous elements. They are
// vectorized, and run at the speed of the memory.
//
//   widen(DType::bf16, x, wide, n);   // n elements of 2 bytes to n floats, exactly
//   narrow(DType::bf16, wide, y, n);  // and back, rounded to nearest, ties to even
//
// Threads: any; there is no state. Determinism: the bits are those of to_float(), to_half() and
// to_bfloat16(), except that a signalling NaN of f16 may come out quiet; they depend neither on n
// nor on the processor. REQUIRES: the dtype is f16 or bf16; the two arrays do not overlap.
#pragma once

#include <cstdint>

#include "devices/base/dtype.h"

namespace leat {

void widen(DType from, const void* x, float* y, int64_t n);
void narrow(DType to, const float* x, void* y, int64_t n);

// The same where the type is known when the program is compiled.
inline void widen(const Half* x, float* y, int64_t n) { widen(DType::f16, x, y, n); }
inline void widen(const BFloat16* x, float* y, int64_t n) { widen(DType::bf16, x, y, n); }
inline void narrow(const float* x, Half* y, int64_t n) { narrow(DType::f16, x, y, n); }
inline void narrow(const float* x, BFloat16* y, int64_t n) { narrow(DType::bf16, x, y, n); }

}  // namespace leat
