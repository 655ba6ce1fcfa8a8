// Convolutions on CUDA by plain kernels of our own: one thread or one warp for each result. They
// are the twins of cuDNN's, and what runs without it.
#pragma once

#include <cuda_runtime_api.h>

#include "devices/base/dtype.h"
#include "ops/cuda/window.h"

namespace leat::cuda {

// x [images, inputs, ...], y [images, outputs, ...], w [outputs, inputs / groups, ...], as ConvSpec
// in ops/definitions/conv_spec.h. An op writes the operand that it computes, and reads the others.
struct ConvCall {
  WindowShape window;
  // True if the channels of all three operands come last. The kernels of our own that compute a
  // convolution do not take such a call; those that finish one do.
  bool channels_last = false;
  int64_t images = 0, groups = 1, inputs = 0, outputs = 0;
  void *x = nullptr, *y = nullptr, *w = nullptr;
  // Forward: added to y, or null. Backward to x: added to x, or null (ConvTranspose). Backward to
  // w: the gradient of the bias is written here, unless it is null.
  void* bias = nullptr;
  bool relu = false;
  void* workspace = nullptr;  // of bias_grad_workspace() bytes, for that gradient
};
cudaError_t launch_conv_forward(const ConvCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_conv_backward_data(const ConvCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_conv_backward_weights(const ConvCall& call, DType dtype, cudaStream_t stream);
// A library's convolution leaves these steps to us, each where it is wanted: y = relu(y + bias).
cudaError_t launch_conv_finish(const ConvCall& call, DType dtype, cudaStream_t stream);
// x = x + bias, of ConvTranspose.
cudaError_t launch_conv_finish_data(const ConvCall& call, DType dtype, cudaStream_t stream);
// The gradient of the bias.
cudaError_t launch_conv_bias_grad(const ConvCall& call, DType dtype, cudaStream_t stream);
size_t bias_grad_workspace(const ConvCall& call, DType dtype);

// Puts the channels of [images, channels, area] last, or back from there.
cudaError_t launch_channels_last(const void* plain, void* last, int64_t images, int64_t channels,
                                 int64_t area, size_t element_bytes, cudaStream_t stream);
cudaError_t launch_channels_first(const void* last, void* plain, int64_t images, int64_t channels,
                                  int64_t area, size_t element_bytes, cudaStream_t stream);

}  // namespace leat::cuda
