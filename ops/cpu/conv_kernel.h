// The CPU kernels of convolutions, which run engines. Forward and backward-data have tiles of
// images; the weights have partial sums in a fixed tree, or tiles of output channels.
#pragma once

#include "ops/cpu/conv_engine.h"
#include "ops/graph/kernel.h"

namespace leat {

// The convolution's operands by their index in the op; -1: absent.
struct ConvOperands {
  int x = 0, w = 1, bias = 2, y = 0;
};

// Computes y from x and w (forward), or x from y and w (backward_data). spec.images is the whole
// batch. `added_bias` (backward_data: that of ConvTranspose) is added to each channel of x.
Result<std::unique_ptr<Kernel>> make_conv_rows_kernel(const KernelSetup& setup, ConvSpec spec,
                                                      ConvOperands operands,
                                                      bool added_bias = false);

// Computes w (output 0) and bias (output 1, if spec.bias) from x and y.
Result<std::unique_ptr<Kernel>> make_conv_weights_kernel(const KernelSetup& setup, ConvSpec spec,
                                                         ConvOperands operands);

// Sums `count` parts of `size` elements each, `stride` elements apart, into the first one. It sums
// the elements [begin, end) of each, in the binary tree that splits at the largest power of two
// below the count.
template <typename T>
void tree_sum(T* parts, int64_t count, int64_t stride, int64_t begin, int64_t end) {
  for (int64_t step = 1; step < count; step *= 2) {
    for (int64_t i = 0; i + step < count; i += 2 * step) {
      T* to = parts + i * stride;
      const T* from = parts + (i + step) * stride;
      for (int64_t e = begin; e < end; ++e) to[e] += from[e];
    }
  }
}

}  // namespace leat
