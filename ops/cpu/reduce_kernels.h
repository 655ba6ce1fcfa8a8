// The kernels of the reductions and their gradient. Only the family's files include this.
#pragma once

#include <memory>

#include "ops/definitions/reduce_shape.h"
#include "ops/graph/kernel.h"

namespace leat {

// The kernel of a reduction of input 0 to output 0. The axes are input 1 (known when the plan is
// made) and the node's attributes; all dtypes have a kernel. f16 and bf16 are summed in float and
// integers in 64 bits; the result is rounded once. The order is that of tree_sum.h: it follows from
// the shape of x alone, with a chain as without one. An empty input gives the identity of the fold:
// 0 for sums, 1 for the product, the lowest or largest value for max and min (infinities for
// floats), and NaN for the mean of floats (0 of integers).
Result<std::unique_ptr<Kernel>> make_reduce_kernel(const KernelSetup& setup, Reduction reduction);
// (dy, x, y or absent, axes or absent) -> dx. The attribute `reduction` names the reduction. The
// gradient of max and min is shared equally by all elements that are equal to the result. dx has
// the float dtype of x. invalid_argument if dy or y does not have one element for each result.
Result<std::unique_ptr<Kernel>> make_reduce_grad_kernel(const KernelSetup& setup);
// Computes the index (i64) of the largest (smallest) element along the attribute `axis`, as ONNX's
// ArgMax and ArgMin. Of equal elements the first counts, or the last with select_last_index. A NaN
// wins in both, as in numpy. REQUIRES: the axis is not empty, unless the result is.
Result<std::unique_ptr<Kernel>> make_arg_kernel(const KernelSetup& setup, bool largest);

}  // namespace leat
