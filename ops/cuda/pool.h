// Pools on CUDA. No bit of a result depends on the launch: sums have the order of the CPU's.
#pragma once

#include <cuda_runtime_api.h>

#include "devices/base/dtype.h"
#include "ops/cuda/window.h"

namespace leat::cuda {

struct PoolCall {
  WindowShape window;
  int64_t planes = 0;       // of x and of y: images times channels
  int64_t channels = 0;     // if the elements of one place lie side by side (channels_last); or 0
  const void* x = nullptr;  // or dy
  void* y = nullptr;        // or dx
  // Of max-pools: outputs that may be absent, and the input of the gradient.
  int64_t* indices = nullptr;
  void* argmax = nullptr;
  bool wide_argmax = false;  // int32, or uint8
  bool column_major = false;
  bool count_pads = false;  // of averages
};
cudaError_t launch_max_pool(const PoolCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_max_pool_grad(const PoolCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_average_pool(const PoolCall& call, DType dtype, cudaStream_t stream);
cudaError_t launch_average_pool_grad(const PoolCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
