// The tree over the leaves of many columns, whose partial results are side by side. The order is
// that of TreeStack (ops/elements/tree_sum.h).
#pragma once

#include "devices/cuda/launch.h"
#include "ops/elements/tree_sum.h"

namespace leat::cuda {

inline constexpr int kFoldedColumns = 32;  // of a block, in neighbouring threads
inline constexpr int kFoldingRows = 32;    // the threads of a column: each folds an aligned subtree

inline LaunchShape folding_shape(int64_t columns) {
  return {dim3(static_cast<unsigned>((columns + kFoldedColumns - 1) / kFoldedColumns)),
          dim3(kFoldedColumns * kFoldingRows)};
}

// For a launch of folding_shape(columns): folds leaf_of(leaf, column) over the leaves, and calls
// finish(column, result) once for each column. REQUIRES: leaves > 0.
template <typename Fold, typename A, typename Leaf, typename Finish>
__device__ inline void fold_leaves(int64_t columns, int64_t leaves, Leaf leaf_of, Finish finish) {
  __shared__ A folded[kFoldingRows][kFoldedColumns];
  const int column = static_cast<int>(threadIdx.x) % kFoldedColumns;
  const int row = static_cast<int>(threadIdx.x) / kFoldedColumns;
  const int64_t c = int64_t{blockIdx.x} * kFoldedColumns + column;
  int64_t each = 1;  // leaves of a thread
  while (each * kFoldingRows < leaves) each *= 2;
  const int64_t first = row * each, end = first + each < leaves ? first + each : leaves;
  if (c < columns && first < end) {
    // Several are loaded at a time, because a load takes longer than a fold.
    constexpr int kAhead = 8;
    A memory[64];
    TreeStack<Fold, A> stack(memory, 1);
    for (int64_t leaf = first; leaf < end; leaf += kAhead) {
      A ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (leaf + k < end) ahead[k] = leaf_of(leaf + k, c);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (leaf + k >= end) continue;
        *stack.top() = ahead[k];
        stack.push();
      }
    }
    folded[row][column] = *stack.finish();
  }
  __syncthreads();
  // Neighbours first.
  const auto rows = static_cast<int>((leaves + each - 1) / each);
  for (int width = 1; width < rows; width *= 2) {
    if (row % (2 * width) == 0 && row + width < rows)
      Fold::into(folded[row][column], folded[row + width][column]);
    __syncthreads();
  }
  if (c < columns && row == 0) finish(c, folded[0][column]);
}

}  // namespace leat::cuda
