// f16 and bf16 kernels by way of float: a kernel for 16-bit operands, made from the one for float.
#pragma once

#include "ops/graph/kernel.h"

namespace leat {

// The parts of a kernel that compute_in_f32() cannot know.
struct ComputeInF32 {
  // The rows of a tile where no chain gives them, for an op whose tiling has rows. 0: without a
  // chain, the operands are converted whole. Tiling::fixed_rows is stronger than this.
  int64_t tile_rows = 0;
  // Bit i: output i keeps its dtype, because the inner kernel rounds it by itself.
  uint32_t rounded_outputs = 0;
  // Bit i: input i keeps its dtype, because the inner kernel computes with it.
  uint32_t kept_inputs = 0;
};

// The kernel converts every 16-bit float input to float, runs the kernel that `factory` makes for
// float operands, and rounds the outputs to nearest even. Operands of other dtypes pass through.
//
// If the kernel is cut into rows (the op's tiling, with the rows of a chain or those of `how`), a
// tile converts its own rows in the thread's scratch memory: they stay in the cache. All other
// operands are converted whole, in the workspace, in a phase before the inner kernel's and in one
// behind them. The bits do not depend on this.
//
// `factory` is called once, at once, with setup's types changed to f32 and without constants; a
// factory may pass itself. Its error is returned. internal if the op has more than 12 inputs
// or outputs.
Result<std::unique_ptr<Kernel>> compute_in_f32(const KernelSetup& setup,
                                               const KernelFactory& factory, ComputeInF32 how = {});

}  // namespace leat
