// The CPU kernel of MatMul, leat.MatMul and Gemm for f16 and bf16 on processors with AVX-512 and
// without AMX. It multiplies in f32 (packed_gemm()): tiles convert the parts of A and B that they
// need, add C and apply the activation in f32, and round each element once. One phase, no
// workspace.
//
// Determinism: the bits of an element depend neither on tiles nor on chains (gemm_avx512.h).
#pragma once

#include "ops/definitions/product.h"
#include "ops/graph/kernel.h"

namespace leat {

// The operands and the result have one type, f16 or bf16. unimplemented without AVX-512; the caller
// then computes with the kernel of float.
Result<std::unique_ptr<Kernel>> make_packed_product_kernel(const KernelSetup& setup,
                                                           const Product& product);

}  // namespace leat
