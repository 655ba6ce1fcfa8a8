// The CPU kernel of MatMul, leat.MatMul and Gemm for bf16 on processors that multiply bf16 faster
// than f32: oneDNN multiplies, and sums are in f32. C is added and the activation applied in f32,
// and each element is rounded once.
//
// If one B serves all rows, phase 0 packs it, one block of columns per tile, and the row phase is
// phase 1. Otherwise there is one phase.
//
// Determinism: if a chain may cut the rows, the library is called with one number of rows, and the
// rows that a tile lacks are zeros. So the bits of an element do not depend on its tile.
#pragma once

#include "ops/definitions/product.h"
#include "ops/graph/kernel.h"

namespace leat {

// The operands are bf16, and so is the result. unimplemented if oneDNN has no fast implementation
// for the sizes; the caller then computes in f32. The kernel works wherever the library has one, so
// that tests need no AMX. A step fails with internal if oneDNN fails.
Result<std::unique_ptr<Kernel>> make_bf16_product_kernel(const KernelSetup& setup,
                                                         const Product& product);

}  // namespace leat
