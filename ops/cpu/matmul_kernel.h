// The CPU kernel of MatMul, leat.MatMul and Gemm.
#pragma once

#include <vector>

#include "ops/definitions/product.h"
#include "ops/graph/kernel.h"

namespace leat {

// The CPU kernel of a product over operands 0 (A), 1 (B) and 2 (C).
Result<std::unique_ptr<Kernel>> make_product_kernel(const KernelSetup& setup, Product product);

}  // namespace leat
