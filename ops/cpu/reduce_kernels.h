// The kernels of the reductions and their gradient. Only the family's files include this.
#pragma once

#include <memory>

#include "ops/definitions/reduce_shape.h"
#include "ops/graph/kernel.h"

namespace leat {

Result<std::unique_ptr<Kernel>> make_reduce_kernel(const KernelSetup& setup, Reduction reduction);
// (dy, x, y or absent, axes or absent) -> dx.
Result<std::unique_ptr<Kernel>> make_reduce_grad_kernel(const KernelSetup& setup);
// Computes the index of the largest (smallest) element along an axis.
Result<std::unique_ptr<Kernel>> make_arg_kernel(const KernelSetup& setup, bool largest);

}  // namespace leat
