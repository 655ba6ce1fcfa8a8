#include <cmath>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/fold_columns.cuh"
#include "ops/cuda/norm.h"
#include "ops/cuda/vector.cuh"
#include "ops/cuda/warp_fold.cuh"
#include "ops/elements/any_float.h"

namespace leat::cuda {
namespace {

// One warp for each line.
template <typename T, typename Y>
__global__ void layer_norm(LayerNormCall call) {
  using A = Compute<T>;
  const int64_t line = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (line >= call.lines) return;
  const T* x = static_cast<const T*>(call.x) + line * call.size;
  const T *scale = static_cast<const T*>(call.scale), *bias = static_cast<const T*>(call.bias);
  const auto element = [&](int64_t i) { return load_as_compute(x[i]); };
  const A n = static_cast<A>(call.size);
  const A mean = warp_tree_sum<A>(call.size, element) / n;
  const A squares = warp_tree_sum<A>(call.size, [&](int64_t i) {
    const A deviation = element(i) - mean;
    return deviation * deviation;
  });
  const A factor = 1 / std::sqrt(squares / n + static_cast<A>(call.epsilon));
  Y* y = static_cast<Y*>(call.y) + line * call.size;
  for (int64_t i = threadIdx.x % kWarp; i < call.size; i += kWarp) {
    A value = (element(i) - mean) * factor * load_as_compute(scale[i]);
    if (bias) value = value + load_as_compute(bias[i]);
    y[i] = store_from_compute<Y>(value);
  }
  if (threadIdx.x % kWarp != 0) return;
  if (call.mean) static_cast<A*>(call.mean)[line] = mean;
  if (call.inverse) static_cast<A*>(call.inverse)[line] = factor;
}

template <typename T, typename D>
__global__ void layer_norm_grad(LayerNormCall call) {
  using A = Compute<T>;
  const int64_t line = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (line >= call.lines) return;
  const T* x = static_cast<const T*>(call.x) + line * call.size;
  const D* dy = static_cast<const D*>(call.dy) + line * call.size;
  const T* scale = static_cast<const T*>(call.scale);
  const A mean = static_cast<const A*>(call.mean)[line];
  const A inverse = static_cast<const A*>(call.inverse)[line];
  const auto scaled = [&](int64_t i) { return load_as_compute(dy[i]) * load_as_compute(scale[i]); };
  const auto shifted = [&](int64_t i) { return load_as_compute(x[i]) - mean; };
  const A n = static_cast<A>(call.size);
  const A shift = warp_tree_sum<A>(call.size, scaled) / n;
  const A slope =
      warp_tree_sum<A>(call.size, [&](int64_t i) { return scaled(i) * (shifted(i) * inverse); }) /
      n;
  T* dx = static_cast<T*>(call.y) + line * call.size;
  for (int64_t i = threadIdx.x % kWarp; i < call.size; i += kWarp)
    dx[i] = store_from_compute<T>(inverse * (scaled(i) - shift - shifted(i) * inverse * slope));
}

// n neighbouring columns for each thread, and a leaf of kRowBlock lines. A block adds its leaves.
template <typename T, typename D, int n>
__global__ void __launch_bounds__(kTileThreadsOfFold)
    sum_columns(LayerNormCall call, int64_t leaves) {
  using A = Compute<T>;
  constexpr int kAhead = 4;
  const int64_t groups = call.size / n;
  const LeafTile tile(leaves, groups);
  const int64_t column = tile.group * n;
  A sums[2 * n] = {};  // of dscale, and of dbias
  if (tile.group < groups && tile.leaf < leaves) {
    const int64_t first = tile.leaf * kRowBlock;
    const int64_t end = first + kRowBlock < call.lines ? first + kRowBlock : call.lines;
    const D* dy = static_cast<const D*>(call.dy) + column;
    const T* x = static_cast<const T*>(call.x) + column;
    for (int64_t line = first; line < end; line += kAhead) {
      Vector<D, n> of_dy[kAhead];
      Vector<T, n> of_x[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (line + k >= end) continue;
        of_dy[k] = load_vector<D, n>(dy + (line + k) * call.size);
        of_x[k] = load_vector<T, n>(x + (line + k) * call.size);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (line + k >= end) continue;
        const A mean = static_cast<const A*>(call.mean)[line + k];
        const A inverse = static_cast<const A*>(call.inverse)[line + k];
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const A g = load_as_compute(of_dy[k].of[j]);
          sums[j] = sums[j] + g * ((load_as_compute(of_x[k].of[j]) - mean) * inverse);
          sums[n + j] = sums[n + j] + g;
        }
      }
    }
  }
  fold_tile(tile, sums, [](A& a, const A& b) { a = a + b; });
  if (tile.group >= groups || !tile.is_first()) return;
  A* out = static_cast<A*>(call.workspace) + 2 * tile.block * call.size + column;
  for (int j = 0; j < n; ++j) {
    out[j] = sums[j];
    out[call.size + j] = sums[n + j];
  }
}

// The columns of dscale, and behind them those of dbias.
template <typename T>
__global__ void __launch_bounds__(kFoldedColumns* kFoldingRows)
    finish_columns(LayerNormCall call, int64_t leaves) {
  using A = Compute<T>;
  const auto* from = static_cast<const A*>(call.workspace);
  fold_leaves<SumFold, A>(
      2 * call.size, leaves,
      [&](int64_t leaf, int64_t i) { return from[2 * leaf * call.size + i]; },
      [&](int64_t i, A value) {
        T* out = static_cast<T*>(i < call.size ? call.dscale : call.dbias);
        if (out) out[i % call.size] = store_from_compute<T>(value);
      });
}
template <typename T>
__global__ void clear_columns(LayerNormCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  T* out = static_cast<T*>(i < call.size ? call.dscale : call.dbias);
  if (i < 2 * call.size && out) out[i % call.size] = T{};
}

}  // namespace

size_t layer_norm_workspace(const LayerNormCall& call) {
  const int64_t leaves = (call.lines + kRowBlock - 1) / kRowBlock;
  return static_cast<size_t>(2 * leaves * call.size) * sizeof(double);
}

cudaError_t launch_layer_norm(const LayerNormCall& call, DType x, DType y, cudaStream_t stream) {
  if (call.lines == 0) return cudaSuccess;
  return dispatch_narrow(x, y, [&](auto zero, auto other) {
    return launch<&layer_norm<decltype(zero), decltype(other)>>(one_warp_each(call.lines), stream,
                                                                call);
  });
}

cudaError_t launch_layer_norm_grad(const LayerNormCall& call, DType x, DType dy,
                                   cudaStream_t stream) {
  return dispatch_narrow(x, dy, [&](auto zero, auto other) {
    using T = decltype(zero);
    using D = decltype(other);
    const int64_t leaves = (call.lines + kRowBlock - 1) / kRowBlock;
    cudaError_t error = cudaSuccess;
    if (call.lines > 0 && call.y)
      error = launch<&layer_norm_grad<T, D>>(one_warp_each(call.lines), stream, call);
    if (error == cudaSuccess && leaves * call.size > 0) {
      constexpr int kMost = neighbours_of<T>();
      const bool vectors = call.size % kMost == 0 && is_aligned(call.x) && is_aligned(call.dy);
      error = vectors ? launch<&sum_columns<T, D, kMost>>(
                            leaf_tile_shape(leaves, call.size / kMost), stream, call, leaves)
                      : launch<&sum_columns<T, D, 1>>(leaf_tile_shape(leaves, call.size), stream,
                                                      call, leaves);
    }
    if (error != cudaSuccess || call.size == 0) return error;
    return leaves > 0 ? launch<&finish_columns<T>>(folding_shape(2 * call.size), stream, call,
                                                   leaf_blocks(leaves))
                      : launch<&clear_columns<T>>(one_thread_each(2 * call.size), stream, call);
  });
}

}  // namespace leat::cuda
