// Copies of elements on CUDA: bits, whatever their dtype.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace leat::cuda {

inline constexpr int kMostCopyAxes = 16;

// out[sum i_d out_steps[d]] = in[sum i_d in_steps[d]] for all i_d < sizes[d]. Steps count elements.
struct CopyCall {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t elements = 0;
  int rank = 0;
  int64_t sizes[kMostCopyAxes] = {};
  int64_t in_steps[kMostCopyAxes] = {};
  int64_t out_steps[kMostCopyAxes] = {};
};

// Elements of 1, 2, 4 or 8 bytes.
cudaError_t launch_copy(const CopyCall& call, size_t element_bytes, cudaStream_t stream);
// Fills `elements` with the one at `value`, on the device; null: with zeros.
cudaError_t launch_fill(void* out, const void* value, int64_t elements, size_t element_bytes,
                        cudaStream_t stream);
// Fills with the same bits, given as the lowest bytes of `bits`.
cudaError_t launch_fill_bits(void* out, uint64_t bits, int64_t elements, size_t element_bytes,
                             cudaStream_t stream);

// out[i] = in[sum_d tables[d][digit d of i]] for each element i of a shape of `sizes`: the padding
// modes that repeat elements. `tables` has the offsets of all axes, one axis after the other.
struct TableCall {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t elements = 0;
  int rank = 0;
  int64_t sizes[kMostCopyAxes] = {};
  int64_t begins[kMostCopyAxes] = {};  // of each axis in `tables`
  const int64_t* tables = nullptr;     // on the device
};
cudaError_t launch_table_copy(const TableCall& call, size_t element_bytes, cudaStream_t stream);

}  // namespace leat::cuda
