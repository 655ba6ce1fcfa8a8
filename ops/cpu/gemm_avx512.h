// A product of matrices of f32, f16 or bf16 on one thread, with sums in f32, by AVX-512F.
//
// The operands are converted and copied into the scratch memory piece by piece, while those pieces
// are in the cache: for kDepth of k, the rows of A, and then 32 columns of B after the other. The
// inner loop computes 12 rows by 32 columns in registers.
//
// Determinism: k is cut into blocks of kDepth. An element is the sum of its blocks, in their order,
// and a block is a chain of fused multiply-adds in the order of k that begins with 0. So its bits
// follow from its row of A and its column of B alone: not from the sizes of the call, nor from
// transpositions.
#pragma once

#include <cstddef>

#include "devices/base/dtype.h"
#include "ops/cpu/onednn.h"

namespace leat {

// True if this CPU (and this build) has AVX-512.
bool has_packed_gemm();

// The scratch memory in bytes, aligned to 64, for calls of at most `rows` rows of A.
size_t packed_gemm_scratch_bytes(int64_t rows);

// C = op(A) * op(B); gemm.alpha is ignored. A and B have the type f32, f16 or bf16, C is f32, and
// its old contents are not read; for k == 0 it is zero. m == 0 or n == 0 does nothing. REQUIRES:
// has_packed_gemm(); C overlaps neither A nor B.
void packed_gemm(const onednn::Gemm& gemm, DType type, const void* a, const void* b, float* c,
                 std::byte* scratch);

}  // namespace leat
