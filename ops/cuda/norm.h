// BatchNormalization, LayerNormalization and their gradients on CUDA, with the CPU's bits: the same
// leaves, folded in the same trees.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

// One value for each channel, of any float dtype; absent: null.
struct ChannelOperand {
  void* data = nullptr;
  DType dtype = DType::f32;
};

// x is [samples, channels, area].
struct BatchNormCall {
  int64_t samples = 0, channels = 0, area = 1;
  // True for an operand in that layout, whose places count as samples; its sums need not be the
  // CPU's.
  bool channels_last = false;
  bool training = false, unbiased = false;
  double epsilon = 0, momentum = 0;
  const void *x = nullptr, *dy = nullptr;
  void* y = nullptr;  // or dx, which may be absent
  // Forward: scale, bias, mean, variance. Backward: scale, mean, inverse deviation.
  ChannelOperand scale, bias, mean, variance;
  // Forward: running mean and variance, saved mean and inverse. Backward: dscale, dbias.
  ChannelOperand results[4];
  void* workspace = nullptr;  // batch_norm_workspace() bytes
};
size_t batch_norm_workspace(const BatchNormCall& call);
cudaError_t launch_batch_norm(const BatchNormCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_batch_norm_grad(const BatchNormCall& call, DType dtype, cudaStream_t stream);

// x is [lines, size]; the statistics are in the type of the arithmetic. y and dy may have 16 bits
// beside an x of float.
struct LayerNormCall {
  int64_t lines = 0, size = 0;
  double epsilon = 0;
  const void *x = nullptr, *dy = nullptr, *scale = nullptr, *bias = nullptr;
  void* y = nullptr;  // or dx
  void *mean = nullptr, *inverse = nullptr;
  void *dscale = nullptr, *dbias = nullptr;
  void* workspace = nullptr;  // of the gradient: layer_norm_workspace() bytes
};
size_t layer_norm_workspace(const LayerNormCall& call);
cudaError_t launch_layer_norm(const LayerNormCall& call, DType x, DType y, cudaStream_t stream);
cudaError_t launch_layer_norm_grad(const LayerNormCall& call, DType x, DType dy,
                                   cudaStream_t stream);

}  // namespace leat::cuda
