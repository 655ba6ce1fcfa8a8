// The CPU kernels of pools, for plain and blocked operands: loops that are vectorized over the 16
// channels of a block. Rows are images. No bit of a result depends on tiles or on the layout.
#pragma once

#include "ops/definitions/window.h"
#include "ops/graph/kernel.h"

namespace leat {

// The outputs of a max-pool: 0 has the values; `indices` has the position of each maximum in the
// whole tensor, as in ONNX, and `argmax` its position in its window. A window that lies in the
// padding alone gives the lowest value and argmax 0. The first of equal maxima counts, and a NaN
// counts as larger than any number.
struct MaxPoolOutputs {
  int indices = -1, argmax = -1;  // the index of the output; -1: the op has none
  bool column_major = false;      // of indices
};
Result<std::unique_ptr<Kernel>> make_max_pool_kernel(const KernelSetup& setup, const Window& window,
                                                     MaxPoolOutputs outputs);
// Computes dx (output 0) from dy and argmax (inputs 0 and 1).
Result<std::unique_ptr<Kernel>> make_max_pool_grad_kernel(const KernelSetup& setup,
                                                          const Window& window);

// Computes y (output 0) from x, or with `gradient` dx from dy.
Result<std::unique_ptr<Kernel>> make_average_pool_kernel(const KernelSetup& setup,
                                                         const Window& window, bool count_pads,
                                                         bool gradient);

}  // namespace leat
