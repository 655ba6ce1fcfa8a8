// GridSample and its gradient on CUDA, with the CPU's sums.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"
#include "ops/elements/grid_taps.h"

namespace leat::cuda {

struct GridSampleCall {
  GridSampleSpec spec;
  int axes = 0;
  int64_t size[kMostSampleAxes] = {1, 1, 1};
  int64_t rows = 0, channels = 0;
  int64_t elements = 0, places = 0;  // of a channel of x and of y
  const void *x = nullptr, *grid = nullptr;
  void* y = nullptr;
  // Of the gradient alone.
  const void* dy = nullptr;
  void *dx = nullptr, *dgrid = nullptr;
  void* workspace = nullptr;  // of grid_sample_grad_workspace() bytes
};
cudaError_t launch_grid_sample(const GridSampleCall& call, DType dtype, cudaStream_t stream);
size_t grid_sample_grad_workspace(const GridSampleCall& call, DType dtype);
cudaError_t launch_grid_sample_grad(const GridSampleCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
