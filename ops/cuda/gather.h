// Gather and its kin on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "devices/base/dtype.h"

namespace leat::cuda {

struct Complaint;

inline constexpr int kMostGatherAxes = 8;

// Data [outer, size, inner] and indices, of int32 or int64, into its middle axis; a negative one
// counts from the end.
struct GatherCall {
  int64_t outer = 1, size = 1, inner = 1, indices = 0;
  const void* index = nullptr;
  bool wide = true;  // int64
  const void* in = nullptr;
  void* out = nullptr;
  Complaint* complaint = nullptr;  // of an index out of range
  void* workspace = nullptr;       // of the gradient: gather_workspace() bytes
};
cudaError_t launch_gather(const GatherCall& call, size_t element_bytes, cudaStream_t stream);
// out[outer, index[j], inner] += in[outer, j, inner], in the order of j, from zero.
cudaError_t launch_gather_grad(const GatherCall& call, DType dtype, cudaStream_t stream);
inline size_t gather_workspace(int64_t indices) {
  return static_cast<size_t>(2 * indices) * sizeof(int64_t);
}

// out[j] = in[the place of element j]: the place is that of j in `sizes`, along the data's `steps`,
// with the index in place of the coordinate on `axis`.
struct GatherElementsCall {
  GatherCall gather;
  int rank = 0, axis = 0;
  int64_t sizes[kMostGatherAxes] = {}, steps[kMostGatherAxes] = {};
  int64_t data_elements = 0;
};
cudaError_t launch_gather_elements(const GatherElementsCall& call, size_t element_bytes,
                                   cudaStream_t stream);

// The part of matrices [matrices, rows, columns] on one side of a diagonal; zero elsewhere.
struct TriluCall {
  int64_t matrices = 0, rows = 0, columns = 0, diagonal = 0;
  bool upper = true;
  const void* in = nullptr;
  void* out = nullptr;
};
cudaError_t launch_trilu(const TriluCall& call, size_t element_bytes, cudaStream_t stream);

}  // namespace leat::cuda
