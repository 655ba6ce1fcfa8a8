// A product of a few rows and a transposed B in f32 on one thread, by AVX-512F: a fully connected
// layer whose weights are [outputs, inputs], over a small batch. B is read once, as it lies in
// memory, and nothing is copied.
//
// Determinism: k is cut into blocks of kFewRowsDepth. An element is the sum of its blocks, in their
// order; a block is 16 chains of fused multiply-adds, one for each lane, which are then added in a
// tree. So its bits follow from its row of A and its row of B alone, not from the sizes of the
// call.
#pragma once

#include "ops/cpu/onednn.h"

namespace leat {

inline constexpr int64_t kFewRowsDepth = 1024;

// True if few_rows_gemm() computes such a product, and faster than oneDNN does: A has at most 64
// rows and is not transposed, B has more than 4 MiB and is. The sizes are those of the whole
// product, so that all of its tiles agree.
bool few_rows_gemm_fits(const onednn::Gemm& whole);

// C = op(A) * op(B); gemm.alpha is ignored. m == 0 or n == 0 does nothing. REQUIRES: this CPU has
// AVX-512 and B is transposed, A is not; C overlaps neither A nor B.
void few_rows_gemm(const onednn::Gemm& gemm, const float* a, const float* b, float* c);

}  // namespace leat
