// Reductions, their gradient, ArgMax and ArgMin.
#include <limits>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/fold_columns.cuh"
#include "ops/cuda/reduce.h"
#include "ops/cuda/vector.cuh"
#include "ops/cuda/warp_fold.cuh"

namespace leat::cuda {
namespace {

// The numbers of ops/definitions/reduce_shape.h.
enum : int { kSum, kMean, kMax, kMin, kProd, kSumSquare, kL1, kL2 };

// Leaves of a tree that one warp folds in one pass: an aligned subtree.
constexpr int64_t kGroup = 1024;

template <typename A>
__device__ inline A identity(int reduction) {
  switch (reduction) {
    case kMax:
      return MaxFold::identity<A>();
    case kMin:
      return MinFold::identity<A>();
    case kProd:
      return ProdFold::identity<A>();
    default:
      return SumFold::identity<A>();
  }
}
template <typename A>
__device__ inline A mapped(int reduction, A x) {
  switch (reduction) {
    case kSumSquare:
    case kL2:
      return Squared::of(x);
    case kL1:
      return Absolute::of(x);
    default:
      return x;
  }
}
template <typename A>
__device__ inline void fold_into(int reduction, A& a, const A& b) {
  switch (reduction) {
    case kMax:
      return MaxFold::into(a, b);
    case kMin:
      return MinFold::into(a, b);
    case kProd:
      return ProdFold::into(a, b);
    default:
      return SumFold::into(a, b);
  }
}
// The operation that follows the fold.
template <typename T>
__device__ inline T finished(const ReduceCall& call, Compute<T> value) {
  using A = Compute<T>;
  if (call.reduction == kMean) value = value / static_cast<A>(call.folded);
  if (call.reduction == kL2) {
    if constexpr (std::is_same_v<A, float>)
      value = std::sqrt(value);
    else
      value = static_cast<A>(std::sqrt(static_cast<double>(value)));
  }
  return store_from_compute<T>(value);
}

__device__ inline int64_t offset_of(const LoopNest& loops, int64_t index) {
  int64_t offset = 0;
  for (int d = loops.count - 1; d > 0; --d) {
    const int64_t outer = index / loops.sizes[d];
    offset += (index - outer * loops.sizes[d]) * loops.strides[d];
    index = outer;
  }
  return loops.count > 0 ? offset + index * loops.strides[0] : offset;
}

// The first element of result g.
__device__ inline int64_t start_of(const ReduceCall& call, int64_t g) {
  const int64_t row = g / call.row_results, in_row = g % call.row_results;
  const int64_t line_results = call.line_reduced ? 1 : call.line;
  return row * call.row_elements + offset_of(call.kept, in_row / line_results) +
         in_row % line_results;
}

__host__ __device__ inline int64_t blocks_of_line(const ReduceCall& call) {
  return (call.line + kLineBlock - 1) / kLineBlock;
}
__host__ __device__ inline int64_t leaves_of(const ReduceCall& call) {
  return call.line_reduced ? call.reduced.total * blocks_of_line(call)
                           : (call.reduced.total + kRowBlock - 1) / kRowBlock;
}

// A leaf's result: final if it is the only one, else among the partial results, those of one leaf
// side by side.
template <typename T>
__device__ inline void write_leaf(const ReduceCall& call, int64_t g, int64_t leaf, int64_t leaves,
                                  Compute<T> value) {
  if (leaves == 1)
    static_cast<T*>(call.y)[g] = finished<T>(call, value);
  else
    static_cast<Compute<T>*>(call.workspace)[leaf * call.results() + g] = value;
}

// One warp for each leaf of each result: a line, or a block of a long one.
template <typename T>
__global__ void fold_lines(ReduceCall call, int64_t leaves) {
  using A = Compute<T>;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= call.results() * leaves) return;
  const int64_t g = warp / leaves, leaf = warp % leaves;
  const int64_t blocks = blocks_of_line(call), at = leaf % blocks * kLineBlock;
  const int64_t n = at + kLineBlock < call.line ? kLineBlock : call.line - at;
  const T* x = static_cast<const T*>(call.x) + start_of(call, g) +
               offset_of(call.reduced, leaf / blocks) + at;
  A value = identity<A>(call.reduction);
  for (int64_t i = threadIdx.x % kWarp; i < n; i += kWarp)
    fold_into(call.reduction, value, mapped(call.reduction, load_as_compute(x[i])));
  for (unsigned width = kWarp / 2; width > 0; width /= 2) {
    const A other = __shfl_down_sync(kAllLanes, value, width);
    fold_into(call.reduction, value, other);
  }
  if (threadIdx.x % kWarp == 0) write_leaf<T>(call, g, leaf, leaves, value);
}

// The fold as a type, for TreeStack, whose number is that of the reduction.
template <int reduction>
struct FoldOf {
  template <typename A>
  __device__ static void into(A& a, const A& b) {
    fold_into(reduction, a, b);
  }
};

// The fold of a leaf of result g: a block of rows, one after the other. Several are loaded at a
// time, because a load takes longer than a fold.
template <typename T>
__device__ inline Compute<T> fold_rows(const ReduceCall& call, int64_t g, int64_t leaf) {
  using A = Compute<T>;
  constexpr int kAhead = 8;
  const T* x = static_cast<const T*>(call.x) + start_of(call, g);
  const int64_t first = leaf * kRowBlock;
  const int64_t end =
      first + kRowBlock < call.reduced.total ? first + kRowBlock : call.reduced.total;
  A value = identity<A>(call.reduction);
  for (int64_t r = first; r < end; r += kAhead) {
    A ahead[kAhead];
    for (int k = 0; k < kAhead; ++k) {
      if (r + k < end) ahead[k] = load_as_compute(x[offset_of(call.reduced, r + k)]);
    }
    for (int k = 0; k < kAhead; ++k) {
      if (r + k < end) fold_into(call.reduction, value, mapped(call.reduction, ahead[k]));
    }
  }
  return value;
}

// One thread for each leaf of each result.
template <typename T>
__global__ void fold_columns(ReduceCall call, int64_t leaves) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.results() * leaves) return;
  const int64_t leaf = i / call.results(), g = i - leaf * call.results();
  write_leaf<T>(call, g, leaf, leaves, fold_rows<T>(call, g, leaf));
}

// The same for neighbouring results whose elements are neighbours in every row. A block folds the
// leaves that it has. `sums`: of the elements as they are, which need not ask for the reduction.
template <typename T, int n, bool sums>
__global__ void __launch_bounds__(kTileThreadsOfFold)
    fold_neighbours(ReduceCall call, int64_t leaves) {
  using A = Compute<T>;
  constexpr int kAhead = 8;
  const int64_t groups = call.results() / n;
  const LeafTile tile(leaves, groups);
  A values[n];
  for (int j = 0; j < n; ++j)
    values[j] = sums ? SumFold::identity<A>() : identity<A>(call.reduction);
  if (tile.group < groups && tile.leaf < leaves) {
    const T* x = static_cast<const T*>(call.x) + start_of(call, tile.group * n);
    const int64_t step = call.reduced.count > 0 ? call.reduced.strides[0] : 0;
    const int64_t first = tile.leaf * kRowBlock;
    const int64_t end =
        first + kRowBlock < call.reduced.total ? first + kRowBlock : call.reduced.total;
    for (int64_t r = first; r < end; r += kAhead) {
      Vector<T, n> ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (r + k < end) ahead[k] = load_vector<T, n>(x + (r + k) * step);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (r + k >= end) break;
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const A value = load_as_compute(ahead[k].of[j]);
          if constexpr (sums)
            SumFold::into(values[j], value);
          else
            fold_into(call.reduction, values[j], mapped(call.reduction, value));
        }
      }
    }
  }
  fold_tile(tile, values, [&](A& a, const A& b) {
    if constexpr (sums)
      SumFold::into(a, b);
    else
      fold_into(call.reduction, a, b);
  });
  if (tile.group >= groups || !tile.is_first()) return;
  const int64_t blocks = leaf_blocks(leaves);
  for (int j = 0; j < n; ++j)
    write_leaf<T>(call, tile.group * n + j, tile.block, blocks, values[j]);
}

// True if that kernel can be launched.
inline bool has_neighbours(const ReduceCall& call, int n) {
  const auto fits = [&](int64_t elements) { return elements % n == 0; };
  bool all = !call.line_reduced && call.reduced.count <= 1 && fits(call.line) &&
             fits(call.row_results) && fits(call.row_elements) && is_aligned(call.x);
  if (call.reduced.count == 1) all = all && fits(call.reduced.strides[0]);
  for (int d = 0; d < call.kept.count; ++d) all = all && fits(call.kept.strides[d]);
  return all;
}

// The same for a few leaves, whose tree is folded by the block that has them: a row of threads for
// each leaf.
constexpr int kLeavesOfBlock = 32;
template <typename T, int reduction>
__global__ void __launch_bounds__(kLeavesOfBlock* kWarp)
    fold_few_columns(ReduceCall call, int leaves) {
  using A = Compute<T>;
  __shared__ A folded[kLeavesOfBlock][kWarp];
  const int column = static_cast<int>(threadIdx.x % kWarp);
  const int leaf = static_cast<int>(threadIdx.x / kWarp);
  const int64_t g = int64_t{blockIdx.x} * kWarp + column;
  const bool inside = g < call.results();
  if (inside) folded[leaf][column] = fold_rows<T>(call, g, leaf);
  __syncthreads();
  // Neighbours first: the tree of TreeStack.
  for (int width = 1; width < leaves; width *= 2) {
    if (inside && leaf % (2 * width) == 0 && leaf + width < leaves)
      fold_into(reduction, folded[leaf][column], folded[leaf + width][column]);
    __syncthreads();
  }
  if (inside && leaf == 0) static_cast<T*>(call.y)[g] = finished<T>(call, folded[0][column]);
}

// Folds each group of kGroup partial results of a result to one; the last pass writes the results.
template <typename T, int reduction>
__global__ void fold_group(ReduceCall call, const Compute<T>* from, Compute<T>* to,
                           int64_t leaves) {
  using A = Compute<T>;
  const int64_t groups = (leaves + kGroup - 1) / kGroup;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= call.results() * groups) return;
  const int64_t group = warp / call.results(), g = warp - group * call.results();
  const int64_t first = group * kGroup, left = leaves - first;
  const A value = warp_tree<FoldOf<reduction>, A>(left < kGroup ? left : kGroup, [&](int64_t leaf) {
    return from[(first + leaf) * call.results() + g];
  });
  if (threadIdx.x % kWarp != 0) return;
  if (groups == 1)
    static_cast<T*>(call.y)[g] = finished<T>(call, value);
  else
    to[group * call.results() + g] = value;
}

// The tree over the partial results of many results.
template <typename T, int reduction>
__global__ void __launch_bounds__(kFoldedColumns* kFoldingRows)
    fold_many(ReduceCall call, int64_t leaves) {
  using A = Compute<T>;
  const auto* from = static_cast<const A*>(call.workspace);
  fold_leaves<FoldOf<reduction>, A>(
      call.results(), leaves,
      [&](int64_t leaf, int64_t g) { return from[leaf * call.results() + g]; },
      [&](int64_t g, A value) { static_cast<T*>(call.y)[g] = finished<T>(call, value); });
}

template <typename T>
cudaError_t launch_fold_many(const ReduceCall& call, int64_t leaves, cudaStream_t stream) {
  const LaunchShape shape = folding_shape(call.results());
  switch (call.reduction) {
    case kMax:
      return launch<&fold_many<T, kMax>>(shape, stream, call, leaves);
    case kMin:
      return launch<&fold_many<T, kMin>>(shape, stream, call, leaves);
    case kProd:
      return launch<&fold_many<T, kProd>>(shape, stream, call, leaves);
    default:
      return launch<&fold_many<T, kSum>>(shape, stream, call, leaves);
  }
}

template <typename T>
cudaError_t launch_fold_group(const ReduceCall& call, const Compute<T>* from, Compute<T>* to,
                              int64_t leaves, cudaStream_t stream) {
  const LaunchShape shape = one_warp_each(call.results() * ((leaves + kGroup - 1) / kGroup));
  switch (call.reduction) {
    case kMax:
      return launch<&fold_group<T, kMax>>(shape, stream, call, from, to, leaves);
    case kMin:
      return launch<&fold_group<T, kMin>>(shape, stream, call, from, to, leaves);
    case kProd:
      return launch<&fold_group<T, kProd>>(shape, stream, call, from, to, leaves);
    default:
      return launch<&fold_group<T, kSum>>(shape, stream, call, from, to, leaves);
  }
}

template <typename T>
cudaError_t launch_fold_few_columns(const ReduceCall& call, int64_t leaves, cudaStream_t stream) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>((call.results() + kWarp - 1) / kWarp));
  shape.block = dim3(static_cast<unsigned>(leaves) * kWarp);
  const int count = static_cast<int>(leaves);
  switch (call.reduction) {
    case kMax:
      return launch<&fold_few_columns<T, kMax>>(shape, stream, call, count);
    case kMin:
      return launch<&fold_few_columns<T, kMin>>(shape, stream, call, count);
    case kProd:
      return launch<&fold_few_columns<T, kProd>>(shape, stream, call, count);
    default:
      return launch<&fold_few_columns<T, kSum>>(shape, stream, call, count);
  }
}

// One thread for each result passes over its elements in their order.
template <typename T>
__global__ void count_hits(ReduceCall call, int64_t* hits, Compute<T>* products) {
  using A = Compute<T>;
  const int64_t g = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (g >= call.results()) return;
  const T* x = static_cast<const T*>(call.x) + start_of(call, g);
  const A y = load_as_compute(static_cast<const T*>(call.y)[g]);
  int64_t count = 0;
  A rest(1);
  const int64_t width = call.line_reduced ? call.line : 1;
  for (int64_t r = 0; r < call.reduced.total; ++r) {
    const T* from = x + offset_of(call.reduced, r);
    for (int64_t i = 0; i < width; ++i) {
      const A value = load_as_compute(from[i]);
      if (call.reduction != kProd)
        count += value == y || (value != value && y != y);
      else if (value == 0)
        ++count;
      else
        rest *= value;
    }
  }
  hits[g] = count;
  products[g] = rest;
}

template <typename T>
__device__ inline Compute<T> reduce_grad_of(const ReduceGradCall& call, int64_t i, int64_t g) {
  using A = Compute<T>;
  const A dy = load_as_compute(static_cast<const T*>(call.dy)[g]);
  if (call.reduction == kSum) return dy;
  if (call.reduction == kMean) return dy / static_cast<A>(call.folded);
  const A x = load_as_compute(static_cast<const T*>(call.x)[i]);
  if (call.reduction == kSumSquare) return 2 * x * dy;
  if (call.reduction == kL1) return x > 0 ? dy : x < 0 ? -dy : A(0);
  const auto* hits = static_cast<const int64_t*>(call.workspace);
  if (call.reduction == kProd) {
    // With one zero, only that element has a gradient; with more, none has.
    const A rest = reinterpret_cast<const A*>(hits + call.results)[g];
    if (hits[g] > 1 || (hits[g] == 1 && x != 0)) return A(0);
    return dy * (x == 0 ? rest : rest / x);
  }
  const A y = load_as_compute(static_cast<const T*>(call.y)[g]);
  // The root has no derivative at 0; the gradient is defined as 0 there.
  if (call.reduction == kL2) return y == 0 ? A(0) : dy * (x / y);
  const bool hit = x == y || (x != x && y != y);
  return hit ? dy / static_cast<A>(hits[g]) : A(0);
}

template <typename T>
__global__ void reduce_grad(ReduceGradCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  int64_t g = 0, left = i;
  for (int d = call.rank - 1; d >= 0; --d) {
    g += left % call.sizes[d] * call.steps[d];
    left /= call.sizes[d];
  }
  static_cast<T*>(call.dx)[i] = store_from_compute<T>(reduce_grad_of<T>(call, i, g));
}

// A NaN counts as the largest for max and as the smallest for min. Of equal elements the first one
// counts, or the last one.
template <typename A>
__device__ inline bool is_better(const ArgCall& call, A value, A than) {
  const bool nan = value != value, than_nan = than != than;
  if (nan || than_nan) return nan && (!than_nan || call.last);
  if (value == than) return call.last;
  return call.largest ? value > than : value < than;
}

template <typename T>
__global__ void find_arg(ArgCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.outer * call.inner) return;
  const T* x =
      static_cast<const T*>(call.x) + i / call.inner * call.size * call.inner + i % call.inner;
  auto best = load_as_compute(x[0]);
  int64_t at = 0;
  for (int64_t k = 1; k < call.size; ++k) {
    const auto value = load_as_compute(x[k * call.inner]);
    if (!is_better(call, value, best)) continue;
    best = value;
    at = k;
  }
  call.y[i] = at;
}

template <typename T>
T empty_result(int reduction) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return store_from_compute<T>(empty_result<float>(reduction));
  } else {
    switch (reduction) {
      case kMax:
        return MaxFold::identity<T>();
      case kMin:
        return MinFold::identity<T>();
      case kProd:
        return T(1);
      case kMean:
        return std::is_floating_point_v<T> ? std::numeric_limits<T>::quiet_NaN() : T(0);
      default:
        return T(0);
    }
  }
}

}  // namespace

// Two halves, which the passes over the tree write in turn.
size_t reduce_workspace(const ReduceCall& call, DType dtype) {
  size_t bytes = 0;
  const int64_t leaves = leaves_of(call);
  if (leaves <= 1) return 0;
  (void)dispatch_all(dtype, [&](auto zero) {
    bytes = sizeof(Compute<decltype(zero)>);
    return cudaSuccess;
  });
  const int64_t groups = (leaves + kGroup - 1) / kGroup;
  return static_cast<size_t>(call.results() * (leaves + groups)) * bytes;
}

cudaError_t launch_reduce(const ReduceCall& call, DType dtype, cudaStream_t stream) {
  return dispatch_all(dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Compute<T>;
    int64_t leaves = leaves_of(call);
    if (!call.line_reduced && leaves > 1 && leaves <= kLeavesOfBlock)
      return launch_fold_few_columns<T>(call, leaves, stream);
    const int64_t units = call.results() * leaves;
    constexpr int kNeighbours = neighbours_of<T>();
    cudaError_t error = cudaSuccess;
    if (call.line_reduced) {
      error = launch<&fold_lines<T>>(one_warp_each(units), stream, call, leaves);
    } else if (kNeighbours > 1 && has_neighbours(call, kNeighbours)) {
      const LaunchShape shape = leaf_tile_shape(leaves, call.results() / kNeighbours);
      const bool sums = call.reduction == kSum || call.reduction == kMean;
      error = sums ? launch<&fold_neighbours<T, kNeighbours, true>>(shape, stream, call, leaves)
                   : launch<&fold_neighbours<T, kNeighbours, false>>(shape, stream, call, leaves);
      leaves = leaf_blocks(leaves);
    } else {
      error = launch<&fold_columns<T>>(one_thread_each(units), stream, call, leaves);
    }
    if (error == cudaSuccess && leaves > 1 && call.results() >= kFoldedColumns)
      return launch_fold_many<T>(call, leaves, stream);
    A* from = static_cast<A*>(call.workspace);
    A* to = from + call.results() * leaves;
    while (error == cudaSuccess && leaves > 1) {
      error = launch_fold_group<T>(call, from, to, leaves, stream);
      leaves = (leaves + kGroup - 1) / kGroup;
      A* const read = from;
      from = to;
      to = read;
    }
    return error;
  });
}

uint64_t empty_result_bits(int reduction, DType dtype) {
  uint64_t bits = 0;
  (void)dispatch_all(dtype, [&](auto zero) {
    const auto value = empty_result<decltype(zero)>(reduction);
    __builtin_memcpy(&bits, &value, sizeof value);
    return cudaSuccess;
  });
  return bits;
}

cudaError_t launch_count_hits(const ReduceCall& call, DType dtype, cudaStream_t stream) {
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* hits = static_cast<int64_t*>(call.workspace);
    return launch<&count_hits<T>>(one_thread_each(call.results()), stream, call, hits,
                                  reinterpret_cast<Compute<T>*>(hits + call.results()));
  });
}

size_t hits_workspace(const ReduceCall& call) {
  return static_cast<size_t>(call.results()) * (sizeof(int64_t) + sizeof(double));
}

cudaError_t launch_reduce_grad(const ReduceGradCall& call, DType dtype, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&reduce_grad<decltype(zero)>>(one_thread_each(call.elements), stream, call);
  });
}

cudaError_t launch_arg(const ArgCall& call, DType dtype, cudaStream_t stream) {
  if (call.outer * call.inner == 0) return cudaSuccess;
  return dispatch_all(dtype, [&](auto zero) {
    return launch<&find_arg<decltype(zero)>>(one_thread_each(call.outer * call.inner), stream,
                                             call);
  });
}

}  // namespace leat::cuda
