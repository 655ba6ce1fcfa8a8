// The CPU kernels of pools, for plain and blocked operands: loops that are vectorized over the 16
// channels of a block. Rows are images. No bit of a result depends on tiles or on the layout.
#pragma once

#include "ops/definitions/window.h"
#include "ops/graph/kernel.h"

namespace leat {

// The outputs of a max-pool: 0 has the values; `indices` (i64) has the position of each maximum in
// the whole tensor, as in ONNX, and `argmax` its position in its window: u8 if a window has at most
// 256 elements, else i32. A window that lies in the padding alone gives the lowest value and argmax
// 0. The first of equal maxima counts. A NaN counts as larger than any number, and of several the
// last one counts. Indices exclude the blocked layout.
struct MaxPoolOutputs {
  int indices = -1, argmax = -1;  // the index of the output; -1: the op has none
  bool column_major = false;      // of indices
};
// Computes the outputs from x (input 0): f32, f64, i8 or u8, else unimplemented. Each tile has some
// images.
Result<std::unique_ptr<Kernel>> make_max_pool_kernel(const KernelSetup& setup, const Window& window,
                                                     MaxPoolOutputs outputs);
// Computes dx (output 0) from dy and argmax (inputs 0 and 1); f32 and f64, else unimplemented. An
// element that is in several windows adds its gradients in the order of the outputs.
Result<std::unique_ptr<Kernel>> make_max_pool_grad_kernel(const KernelSetup& setup,
                                                          const Window& window);

// Computes y (output 0) from x, or with `gradient` dx from dy; f32 and f64, else unimplemented. The
// elements of a window are added in row-major order, and the sum is divided once. With `count_pads`
// (ONNX's count_include_pad) the divisor counts the padding, too; see window_count() in
// pool_taps.h.
Result<std::unique_ptr<Kernel>> make_average_pool_kernel(const KernelSetup& setup,
                                                         const Window& window, bool count_pads,
                                                         bool gradient);

}  // namespace leat
