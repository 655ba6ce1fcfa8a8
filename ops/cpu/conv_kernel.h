// The CPU kernels of convolutions, which run engines (conv_engine.h). Forward and backward-data
// have tiles of images; the weights have partial sums in a fixed tree, or tiles of output channels.
//
// A kernel owns its engines: one for whole tiles, and one for a last tile of fewer images. They
// read the same packed weights, and the bits of an image are the same in both. f16 and bf16
// operands come here as float (compute_in_f32()), except where spec.dtype is bf16. Then x, y and
// the weights that are read are bf16, biases and the gradients of weights are f32, and oneDNN
// computes with sums in f32; both functions return its error if it has no fast implementation. A
// step fails with internal if oneDNN fails, as in a process that may not make memory executable.
// The kernels report slow plain loops as a note (ops/graph/kernel_note.h).
#pragma once

#include "ops/cpu/conv_engine.h"
#include "ops/graph/kernel.h"

namespace leat {

// The convolution's operands by their index in the op; -1: absent. The kind decides whether an
// index counts inputs or outputs: the operands that the kind computes are outputs, all others
// inputs.
struct ConvOperands {
  int x = 0, w = 1, bias = 2, y = 0;
};

// Computes y from x and w (forward), or x from y and w (backward_data). spec.images is the whole
// batch, in tiles of setup.tile_rows images, or of a number that follows from the shapes. An empty
// batch does nothing. If the engine packs weights, phase 0 packs them into the workspace, and the
// row phase is phase 1. `added_bias` (backward_data: that of ConvTranspose) is added to each
// channel of x, which must be plain. Winograd's algorithm is chosen here, for the whole batch, so
// that all tiles use one algorithm.
Result<std::unique_ptr<Kernel>> make_conv_rows_kernel(const KernelSetup& setup, ConvSpec spec,
                                                      ConvOperands operands,
                                                      bool added_bias = false);

// Computes w (output 0) and bias (output 1, if spec.bias) from x and y. If
// weights_by_channels(spec), the gradient is one product (conv_weights_1x1.h; with AMX
// conv_weights_bf16.h), or a tile computes kSliceOutputs output channels from all images.
// Otherwise each tile of images writes a partial sum to the workspace, and phase 1 adds the parts
// in a tree. The size of these tiles decides the bits; a chain must use the same one
// (Tiling::fixed_rows). An empty batch gives zeros.
Result<std::unique_ptr<Kernel>> make_conv_weights_kernel(const KernelSetup& setup, ConvSpec spec,
                                                         ConvOperands operands);

// Sums `count` parts of `size` elements each, `stride` elements apart, into the first one; the
// others are overwritten with sums in between. It sums the elements [begin, end) of each, in the
// binary tree that splits at the largest power of two below the count, which is the tree of
// TreeStack (tree_sum.h). Threads may call it for disjoint ranges at the same time. count <= 1
// changes nothing.
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
