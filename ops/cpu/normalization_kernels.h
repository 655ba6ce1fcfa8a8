// The kernels of the normalizations. Only the family's files include this.
//
// x, y and their gradients may be any float dtype; f16 and bf16 are computed in float. Samples or
// lines are cut into tiles, with the same bits for any tiles: sums have the tree of tree_sum.h, and
// the statistics of a batch are merged from leaves that follow from the shape alone.
#pragma once

#include <memory>

#include "ops/graph/kernel.h"

namespace leat {

// (x, scale, bias, mean, variance) -> (y, running mean, running variance, saved mean, saved inverse
// deviation). The last four are optional. x is [samples, channels, ...]; all others are [channels],
// each of any float dtype. With the attribute training_mode, y uses the mean and variance of the
// batch, and the running values become old * momentum + batch * (1 - momentum); else y uses inputs
// 3 and 4. The batch is merged in double (Chan, Golub and LeVeque, 1979). The inverse deviation is
// 1 / sqrt(variance + epsilon).
Result<std::unique_ptr<Kernel>> make_batch_norm_kernel(const KernelSetup& setup);
// (dy, x, scale, saved mean, saved inverse deviation) -> (dx, dscale, dbias).
Result<std::unique_ptr<Kernel>> make_batch_norm_grad_kernel(const KernelSetup& setup);
// (x, scale, bias or absent) -> (y, mean, inverse deviation). The last two are optional, and are in
// the type for computations (float for f16 and bf16), so that the gradient reads them unrounded. A
// line is all elements from the attribute `axis` on; scale and bias have the size of a line and the
// dtype of x.
Result<std::unique_ptr<Kernel>> make_layer_norm_kernel(const KernelSetup& setup);
// (dy, x, scale, mean, inverse deviation) -> (dx, dscale, dbias).
Result<std::unique_ptr<Kernel>> make_layer_norm_grad_kernel(const KernelSetup& setup);

}  // namespace leat
