// The CPU kernels of pools, for plain and for blocked operands: own loops, vectorized over the 16
// channels of a block. Rows are images; results do not depend on tiles or layout, to the bit.
#pragma once

#include "ops/definitions/window.h"
#include "ops/graph/kernel.h"

namespace leat {

// Outputs of a max-pool: 0 values; the position of each maximum as `indices` (ONNX's, in the whole
// tensor) and as `argmax` (in its window). Where a window lies in the padding alone, the lowest
// value and argmax 0. The first of equal maxima counts; a NaN counts as larger than any number.
struct MaxPoolOutputs {
  int indices = -1, argmax = -1;  // which output; -1: the op has none
  bool column_major = false;      // of indices
};
Result<std::unique_ptr<Kernel>> make_max_pool_kernel(const KernelSetup& setup, const Window& window,
                                                     MaxPoolOutputs outputs);
// dx (output 0) from dy and argmax (inputs 0 and 1).
Result<std::unique_ptr<Kernel>> make_max_pool_grad_kernel(const KernelSetup& setup,
                                                          const Window& window);

// y (output 0) from x, or with `gradient` dx from dy.
Result<std::unique_ptr<Kernel>> make_average_pool_kernel(const KernelSetup& setup,
                                                         const Window& window, bool count_pads,
                                                         bool gradient);

}  // namespace leat
