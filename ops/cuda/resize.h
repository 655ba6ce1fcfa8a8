// Resize and its gradient on CUDA: one axis after the other, with the CPU's sums.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

// One axis: [before, in, after] becomes [before, out, after], for all blocks together. The tables
// are those of AxisWeights, on the device.
struct ResizePassCall {
  int64_t before = 0, in = 0, out = 0, after = 1;
  const int64_t* first = nullptr;
  const int64_t* index = nullptr;
  const double* weight = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
};
// The types of x and y are equal, or one of them is float and the other has 16 bits.
cudaError_t launch_resize_pass(const ResizePassCall& call, DType from, DType to,
                               cudaStream_t stream);
// Each element of y is one of x; `bytes` of an element.
cudaError_t launch_pick_pass(const ResizePassCall& call, size_t bytes, cudaStream_t stream);

// Sets the elements of y that lie outside along any axis.
struct ExtrapolateCall {
  static constexpr int kMostAxes = 8;
  struct Axis {
    const uint8_t* outside = nullptr;  // by place; null: none is
    int64_t out = 1, after = 1;
  };
  Axis axes[kMostAxes];
  int count = 0;
  int64_t elements = 0;
  uint64_t bits = 0;  // of the value
  void* y = nullptr;
};
cudaError_t launch_extrapolate(const ExtrapolateCall& call, size_t bytes, cudaStream_t stream);

}  // namespace leat::cuda
