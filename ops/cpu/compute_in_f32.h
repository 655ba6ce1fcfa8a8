// f16 and bf16 kernels by way of float: a kernel for 16-bit operands, made from the one for float.
#pragma once

#include "ops/graph/kernel.h"

namespace leat {

// The kernel converts every 16-bit float input to float in the workspace, runs the kernel that
// `factory` makes for float operands, and rounds the outputs to nearest even. Operands of other
// dtypes pass through. The conversions are phases of their own over whole operands, so an op that
// uses this has no row tiles for these types (its tiling() returns rows == 0).
//
// `factory` is called once, at once, with setup's types changed to f32, without constants and
// without tile_rows; a factory may pass itself. Its error is returned. internal if the op has
// more than 12 inputs or outputs.
Result<std::unique_ptr<Kernel>> compute_in_f32(const KernelSetup& setup,
                                               const KernelFactory& factory);

}  // namespace leat
