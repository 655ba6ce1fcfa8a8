// The kernels behind the reductions and their gradient. Private to the family's files.
#pragma once

#include <memory>

#include "ops/graph/kernel.h"

namespace leat {

enum class Reduction : uint8_t { sum, mean, max, min, prod, sum_square, l1, l2 };
std::string_view reduction_name(Reduction reduction);  // "sum"

Result<std::unique_ptr<Kernel>> make_reduce_kernel(const KernelSetup& setup, Reduction reduction);
// (dy, x, y or absent, axes or absent) -> dx.
Result<std::unique_ptr<Kernel>> make_reduce_grad_kernel(const KernelSetup& setup);
// The index of the largest (smallest) element along an axis.
Result<std::unique_ptr<Kernel>> make_arg_kernel(const KernelSetup& setup, bool largest);

}  // namespace leat
