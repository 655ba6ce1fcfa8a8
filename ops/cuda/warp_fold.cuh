// Folds within a warp, in the order of ops/elements/tree_sum.h: lane j holds lane j of the line,
// and the lanes are folded by halves. The fold is complete in lane 0.
#pragma once

#include "devices/cuda/launch.h"
#include "ops/elements/tree_sum.h"

namespace leat::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;
static_assert(kFoldLanes == static_cast<int>(kWarp));

// Map::of() is done by the caller.
template <typename Fold, typename T>
__device__ inline T fold_lanes(T lane) {
  for (unsigned width = kWarp / 2; width > 0; width /= 2) {
    const T other = __shfl_down_sync(kAllLanes, lane, width);
    Fold::into(lane, other);
  }
  return lane;
}
// The same for all lanes.
template <typename Fold, typename T>
__device__ inline T fold_lanes_for_all(T lane) {
  return __shfl_sync(kAllLanes, fold_lanes<Fold>(lane), 0);
}

// The tree sum of value(i), i < n, computed by one warp; all lanes get it. T is a compute type.
template <typename T, typename Value>
__device__ inline T warp_tree_sum(int64_t n, Value value) {
  const unsigned lane = threadIdx.x % kWarp;
  T memory[64];
  TreeStack<SumFold, T> stack(memory, 1);
  int64_t begin = 0;
  do {
    const int64_t end = begin + kLineBlock < n ? begin + kLineBlock : n;
    T sum = SumFold::identity<T>();
    for (int64_t i = begin + lane; i < end; i += kWarp) SumFold::into(sum, value(i));
    *stack.top() = fold_lanes<SumFold>(sum);
    stack.push();
    begin += kLineBlock;
  } while (begin < n);
  return __shfl_sync(kAllLanes, *stack.finish(), 0);
}
template <typename T>
__device__ inline T shuffle_down(T value, unsigned by) {
  return __shfl_down_sync(kAllLanes, value, by);
}

// The fold of leaf(i), i < n, in the tree of TreeStack, computed by one warp; lane 0 gets it. T has
// a shuffle_down(). REQUIRES: n > 0.
template <typename Fold, typename T, typename Leaf>
__device__ inline T warp_tree(int64_t n, Leaf leaf) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  T memory[64];
  TreeStack<Fold, T> stack(memory, 1);
  for (int64_t begin = 0; begin < n; begin += kWarp) {
    const int count = n - begin < kWarp ? static_cast<int>(n - begin) : static_cast<int>(kWarp);
    T value = leaf(begin + (lane < count ? lane : count - 1));
    // An aligned subtree: neighbours first.
    for (int width = 1; width < count; width *= 2) {
      const T other = shuffle_down(value, static_cast<unsigned>(width));
      if (lane % (2 * width) == 0 && lane + width < count) Fold::into(value, other);
    }
    *stack.top() = value;
    stack.push();
  }
  return *stack.finish();
}

// The largest value(i), i < n, by one warp; all lanes get it.
template <typename T, typename Value>
__device__ inline T warp_max(int64_t n, Value value) {
  T largest = MaxFold::identity<T>();
  for (int64_t i = threadIdx.x % kWarp; i < n; i += kWarp) MaxFold::into(largest, value(i));
  return fold_lanes_for_all<MaxFold>(largest);
}

}  // namespace leat::cuda
