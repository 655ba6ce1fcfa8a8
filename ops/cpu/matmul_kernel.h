// The CPU kernel of MatMul, leat.MatMul and Gemm.
//
// The result is cut into tiles of up to 64 rows by 512 columns, or into the rows that a chain
// gives; K is never cut. The kernel has one phase and no workspace. Each tile computes alpha *
// op(A) * op(B), adds beta * C and applies the Relu while the tile is in the cache.
//
// Determinism: without a chain, tiles follow from the sizes alone. If a chain may cut the rows, the
// bits of an element do not depend on its tile. oneDNN takes other paths for narrow tiles, with
// other bits, so the kernel pads such a tile in its scratch memory. Processors with and without
// AVX-512 give different bits.
#pragma once

#include <vector>

#include "ops/definitions/product.h"
#include "ops/graph/kernel.h"

namespace leat {

// The CPU kernel of a product over operands 0 (A), 1 (B) and 2 (C, optional: product.has_c); the
// result is output 0, contiguous. `product` comes from describe_matmul() or describe_gemm() for the
// same types.
//
// The dtypes of the operands are f32, f64 and integers of 32 and 64 bits; any other returns
// unimplemented. The callers turn f16 and bf16 operands into float with compute_in_f32(). The
// result has the dtype of the operands, or is f16 or bf16 of float operands: each tile is then
// rounded once, when it is complete. A step fails with internal if oneDNN refuses, as in a process
// that may not make memory executable.
Result<std::unique_ptr<Kernel>> make_product_kernel(const KernelSetup& setup, Product product);

}  // namespace leat
