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

// A first pass over the leaves of many columns: a thread has one leaf of a group of neighbouring
// columns, and a block folds an aligned subtree of leaves of some groups.
inline constexpr int kTileThreadsOfFold = 256, kTileLeaves = 32;

__host__ __device__ inline int64_t leaf_blocks(int64_t leaves) {
  return (leaves + kTileLeaves - 1) / kTileLeaves;
}
// The groups of a block: more where there are fewer leaves than a block can have.
__host__ __device__ inline int groups_of_tile(int64_t leaves) {
  int of_block = kTileLeaves;
  while (of_block > 1 && of_block / 2 >= leaves) of_block /= 2;
  return kTileThreadsOfFold / of_block;
}
inline LaunchShape leaf_tile_shape(int64_t leaves, int64_t groups) {
  const int64_t tiles = (groups + groups_of_tile(leaves) - 1) / groups_of_tile(leaves);
  return {dim3(static_cast<unsigned>(leaf_blocks(leaves) * tiles)), dim3(kTileThreadsOfFold)};
}

// What a thread has. The group, or the leaf, may be behind the last one.
struct LeafTile {
  __device__ LeafTile(int64_t all_leaves, int64_t all_groups)
      : leaves(all_leaves), groups(groups_of_tile(all_leaves)) {
    const int64_t tiles = (all_groups + groups - 1) / groups;
    block = blockIdx.x / tiles;
    leaf = block * kTileLeaves + threadIdx.x / static_cast<unsigned>(groups);
    group = blockIdx.x % tiles * groups + threadIdx.x % static_cast<unsigned>(groups);
  }
  // True for the thread of the block's first leaf, which gets the results of the group.
  __device__ bool is_first() const { return static_cast<int>(threadIdx.x) < groups; }
  int64_t leaves;
  int groups;     // of the block
  int64_t block;  // of leaves
  int64_t leaf, group;
};

// Folds the values of the block's leaves, neighbours first, into those of the first one. All
// threads of the block call it.
template <int n, typename A, typename Into>
__device__ inline void fold_tile(const LeafTile& tile, A (&values)[n], Into into) {
  __shared__ A folded[kTileThreadsOfFold][n];
  const int thread = static_cast<int>(threadIdx.x), leaf = thread / tile.groups;
  const int64_t left = tile.leaves - tile.block * kTileLeaves;
  const int count = left < kTileLeaves ? static_cast<int>(left) : kTileLeaves;
  A(&own)[n] = folded[thread];
  for (int j = 0; j < n; ++j) own[j] = values[j];
  __syncthreads();
  for (int width = 1; width < count; width *= 2) {
    if (leaf % (2 * width) == 0 && leaf + width < count) {
      const A(&other)[n] = folded[thread + width * tile.groups];
      for (int j = 0; j < n; ++j) into(own[j], other[j]);
    }
    __syncthreads();
  }
  for (int j = 0; j < n; ++j) values[j] = own[j];
}

}  // namespace leat::cuda
