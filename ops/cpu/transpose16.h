// Transposes matrices of 2-byte and 4-byte elements in registers, in blocks of 16 by 16: to change
// a tensor's layout between plain and channels16, and for strided copies.
#pragma once

#include <cstdint>

namespace leat {

// Transposes [16, n] to [n, 16], and back, for any n >= 0. The elements are moved as bits, so f32
// and i32 use the same functions. Returns false, without any effect, if this CPU (or this build)
// lacks AVX-512; the caller then runs its plain loop. REQUIRES: the matrices do not overlap.
bool transpose_16xn_avx512(const uint32_t* from, uint32_t* to, int64_t n);
bool transpose_nx16_avx512(const uint32_t* from, uint32_t* to, int64_t n);
bool transpose_16xn_avx512(const uint16_t* from, uint16_t* to, int64_t n);
bool transpose_nx16_avx512(const uint16_t* from, uint16_t* to, int64_t n);

// The transpose of any matrix: to[i * to_row + j] = from[j * from_row + i] for i < rows and j <
// columns. Returns false, without any effect, as above. REQUIRES: the elements that are read and
// those that are written do not overlap.
bool transpose_avx512(const uint32_t* from, int64_t from_row, uint32_t* to, int64_t to_row,
                      int64_t rows, int64_t columns);
bool transpose_avx512(const uint16_t* from, int64_t from_row, uint16_t* to, int64_t to_row,
                      int64_t rows, int64_t columns);

}  // namespace leat
