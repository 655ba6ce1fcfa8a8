// leat.SumRows on CUDA, which makes the gradient of a table by rows dense: see ops/cpu/row_sum.h.
#pragma once

#include "ops/cuda/gather.h"

namespace leat::cuda {

// Lines [lines, width] in `in`, of which line j belongs to row index[j] of `out`, [rows, width].
// The lines are a concatenation over shards of the same length, and within a shard over the uses of
// the table, which end at part_ends.
struct RowSumCall {
  GatherCall places;  // outer 1, size: rows, inner: width
  int64_t shards = 1, parts = 1;
  const int64_t* part_ends = nullptr;  // in the device's memory
};
// Sums in the order of RowSum, rounded after each addition. The workspace has
// sorting_bytes(call.places.indices) bytes.
cudaError_t launch_row_sum(const RowSumCall& call, DType dtype, cudaStream_t stream);

}  // namespace leat::cuda
