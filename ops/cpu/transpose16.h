// Transposes matrices of 16 rows or 16 columns of 4-byte elements in registers, to change a
// tensor's layout between plain and channels16.
#pragma once

#include <cstdint>

namespace leat {

// Transposes [16, n] to [n, 16], and back, for any n >= 0. The elements are moved as bits, so f32
// and i32 use the same functions. Returns false, without any effect, if this CPU (or this build)
// lacks AVX-512; the caller then runs its plain loop. REQUIRES: the matrices do not overlap.
bool transpose_16xn_avx512(const uint32_t* from, uint32_t* to, int64_t n);
bool transpose_nx16_avx512(const uint32_t* from, uint32_t* to, int64_t n);

}  // namespace leat
