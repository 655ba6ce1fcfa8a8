// The kernels of leat.Recurrent and leat.RecurrentGrad for bf16 on processors that multiply bf16
// fast: the products with R multiply bf16 as it is, and all else is f32. The state stays f32 from
// step to step; a product reads it rounded to bf16.
#pragma once

#include "ops/graph/kernel.h"

namespace leat {

// The operands are bf16. unimplemented if oneDNN has no fast product of these sizes, and for a GRU
// that resets the state before its product; the caller then computes in f32. They work wherever the
// library has such products, so that tests need no AMX.
Result<std::unique_ptr<Kernel>> make_bf16_recurrent_kernel(const KernelSetup& setup);
Result<std::unique_ptr<Kernel>> make_bf16_recurrent_grad_kernel(const KernelSetup& setup);

}  // namespace leat
