// Scatter and the gradients of its kin on CUDA: several updates may be for one element, and are
// done in their order, as on the CPU. The updates are sorted by their destinations first.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"
#include "ops/cuda/gather.h"
#include "ops/cuda/indexing.h"
#include "ops/cuda/sorting.h"

namespace leat::cuda {

enum class ScatterKind : uint8_t { none, add, mul, min, max };

// Update u of `updates` is for line destination[u] of y. Its own line has as many elements.
struct ScatterCall {
  ScatterKind kind = ScatterKind::none;
  int64_t updates = 0, line = 1, elements = 0;  // `elements` of y
  const void* data = nullptr;                   // y begins as this; null: as zeros
  const void* update = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;  // of sorting_bytes(updates)
};
// The destinations are those that GatherElements, or GatherND, reads for the same indices.
cudaError_t launch_scatter_elements(const ScatterCall& call, const GatherElementsCall& places,
                                    DType dtype, cudaStream_t stream);
cudaError_t launch_scatter_nd(const ScatterCall& call, const GatherNdCall& places, DType dtype,
                              cudaStream_t stream);

}  // namespace leat::cuda
