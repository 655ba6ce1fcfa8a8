// The kernels of the normalizations. Only the family's files include this.
#pragma once

#include <memory>

#include "ops/graph/kernel.h"

namespace leat {

// (x, scale, bias, mean, variance) -> (y, running mean, running variance, saved mean, saved inverse
// deviation). The last four are optional.
Result<std::unique_ptr<Kernel>> make_batch_norm_kernel(const KernelSetup& setup);
// (dy, x, scale, saved mean, saved inverse deviation) -> (dx, dscale, dbias).
Result<std::unique_ptr<Kernel>> make_batch_norm_grad_kernel(const KernelSetup& setup);
// (x, scale, bias or absent) -> (y, mean, inverse deviation). The last two are optional.
Result<std::unique_ptr<Kernel>> make_layer_norm_kernel(const KernelSetup& setup);
// (dy, x, scale, mean, inverse deviation) -> (dx, dscale, dbias).
Result<std::unique_ptr<Kernel>> make_layer_norm_grad_kernel(const KernelSetup& setup);

}  // namespace leat
