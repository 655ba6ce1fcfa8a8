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

// The leaves of a channel: lines of a plane, or, where a plane is one element, blocks of samples.
// If the channels are last, a block of threads folds a leaf.
struct Leaves {
  LEAT_INLINE explicit Leaves(const BatchNormCall& call)
      : of_rows(call.area == 1),
        span(!of_rows             ? kLineBlock
             : call.channels_last ? kRowBlock * kTileLeaves
                                  : kRowBlock),
        parts(of_rows ? 1 : (call.area + kLineBlock - 1) / kLineBlock),
        count(of_rows ? (call.samples + span - 1) / span : call.samples * parts),
        whole(of_rows ? call.samples : call.area) {}
  // The elements of one channel in a leaf.
  LEAT_INLINE int64_t size(int64_t leaf) const {
    const int64_t left = whole - (of_rows ? leaf : leaf % parts) * span;
    return left < span ? left : span;
  }
  bool of_rows;
  int64_t span, parts, count, whole;
};

// The workspace: two values for each (leaf, channel), and then some for each channel.
enum { kMean, kFactor, kBias, kSlope, kParameters };
template <typename A>
__device__ inline A* leaf_value(const BatchNormCall& call, int64_t leaf, int which) {
  return static_cast<A*>(call.workspace) + (2 * leaf + which) * call.channels;
}
template <typename A>
__device__ inline A* parameter(const BatchNormCall& call, int which) {
  return static_cast<A*>(call.workspace) + (2 * Leaves(call).count + which) * call.channels;
}

__device__ inline double read(const ChannelOperand& operand, int64_t c) {
  return float_at(operand.data, operand.dtype, c);
}
__device__ inline void write(const ChannelOperand& operand, int64_t c, double value) {
  if (operand.data) set_float_at(operand.data, operand.dtype, c, value);
}

// The first element of a leaf of a channel.
__device__ inline int64_t start_of(const BatchNormCall& call, const Leaves& leaves, int64_t leaf,
                                   int64_t c) {
  if (leaves.of_rows) return leaf * leaves.span * call.channels + c;
  return (leaf / leaves.parts * call.channels + c) * call.area + leaf % leaves.parts * kLineBlock;
}

// The sum of value(i) over a leaf of up to kLineBlock elements: a warp for a line, a thread for a
// block of rows.
template <typename A, typename Value>
__device__ inline A sum_leaf(bool of_rows, int64_t n, Value value) {
  A sum = SumFold::identity<A>();
  if (of_rows) {
    for (int64_t i = 0; i < n; ++i) sum = sum + value(i);
    return sum;
  }
  for (int64_t i = threadIdx.x % kWarp; i < n; i += kWarp) SumFold::into(sum, value(i));
  return fold_lanes_for_all<SumFold>(sum);
}

// Which leaf of which channel this thread, or its warp, works on; false if there is none.
__device__ inline bool find_leaf(const BatchNormCall& call, const Leaves& leaves, int64_t& leaf,
                                 int64_t& c) {
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (!leaves.of_rows) i /= kWarp;
  leaf = i / call.channels;
  c = i % call.channels;
  return leaf < leaves.count;
}
constexpr int kLeafWarps = 4;  // of a block
LaunchShape shape_of(const BatchNormCall& call, const Leaves& leaves) {
  const int64_t threads = leaves.count * call.channels * (leaves.of_rows ? 1 : int64_t{kWarp});
  constexpr int64_t kThreads = kLeafWarps * int64_t{kWarp};
  return {dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), dim3(kThreads)};
}

// A leaf's elements as a warp sums them: lane j has every 32nd from element j on. Those of 16 bits
// come by way of shared memory, where n > 1: neighbours of a lane are no neighbours in memory.
template <typename T, int n>
struct LeafMemory {
  static constexpr bool kUsed = n > 1 && sizeof(T) == 2;
  alignas(kVectorBytes) T of[kUsed ? kLeafWarps : 1][kUsed ? kLineBlock : 1];
};
template <typename T, int n>
__device__ inline const T* gathered(LeafMemory<T, n>& memory, const T* from, int64_t count) {
  if constexpr (!LeafMemory<T, n>::kUsed) return from;
  T* line = memory.of[LeafMemory<T, n>::kUsed ? threadIdx.x / kWarp : 0];
  for (int64_t i = threadIdx.x % kWarp * n; i < count; i += int64_t{kWarp} * n)
    store_vector(line + i, load_vector<T, n>(from + i));
  __syncwarp();
  return line;
}

// Chan, Golub and LeVeque's merge of two parts.
struct Moments {
  double count, mean, squares;
};
__device__ inline Moments shuffle_down(const Moments& value, unsigned by) {
  return {__shfl_down_sync(kAllLanes, value.count, by), __shfl_down_sync(kAllLanes, value.mean, by),
          __shfl_down_sync(kAllLanes, value.squares, by)};
}
struct MergeMoments {
  __device__ static void into(Moments& a, const Moments& b) {
    const double count = a.count + b.count, delta = b.mean - a.mean;
    const double mean = a.mean + delta * (b.count / count);
    a.squares = a.squares + b.squares + delta * delta * (a.count * b.count / count);
    a.mean = mean;
    a.count = count;
  }
};

// Two sums of a channel.
struct Two {
  double first, second;
};
struct AddTwo {
  __device__ static void into(Two& a, const Two& b) {
    a.first = a.first + b.first;
    a.second = a.second + b.second;
  }
};

template <typename T, int n>
__global__ void __launch_bounds__(kLeafWarps* kWarp) measure(BatchNormCall call) {
  using A = Compute<T>;
  __shared__ LeafMemory<T, n> memory;
  const Leaves leaves(call);
  int64_t leaf, c;
  if (!find_leaf(call, leaves, leaf, c)) return;
  const int64_t count = leaves.size(leaf), step = leaves.of_rows ? call.channels : 1;
  const T* x =
      gathered(memory, static_cast<const T*>(call.x) + start_of(call, leaves, leaf, c), count);
  const A mean =
      sum_leaf<A>(leaves.of_rows, count, [&](int64_t i) { return load_as_compute(x[i * step]); }) /
      static_cast<A>(count);
  const A squares = sum_leaf<A>(leaves.of_rows, count, [&](int64_t i) {
    const A deviation = load_as_compute(x[i * step]) - mean;
    return deviation * deviation;
  });
  if (!leaves.of_rows && threadIdx.x % kWarp != 0) return;
  leaf_value<A>(call, leaf, 0)[c] = mean;
  leaf_value<A>(call, leaf, 1)[c] = squares;
}

// The mean and the squares around it of up to kRowBlock rows of n neighbouring channels, which are
// held in registers.
template <typename T, int n>
__device__ inline void measure_block(const T* x, int64_t channels, int count, Compute<T> (&mean)[n],
                                     Compute<T> (&squares)[n]) {
  using A = Compute<T>;
  Vector<T, n> rows[kRowBlock];
#pragma unroll
  for (int r = 0; r < kRowBlock; ++r) {
    if (r < count) rows[r] = load_vector<T, n>(x + r * channels);
  }
#pragma unroll
  for (int j = 0; j < n; ++j) {
    A sum(0), of_block(0);
#pragma unroll
    for (int r = 0; r < kRowBlock; ++r) {
      if (r < count) sum = sum + load_as_compute(rows[r].of[j]);
    }
    mean[j] = sum / static_cast<A>(count);
#pragma unroll
    for (int r = 0; r < kRowBlock; ++r) {
      if (r >= count) continue;
      const A deviation = load_as_compute(rows[r].of[j]) - mean[j];
      of_block = of_block + deviation * deviation;
    }
    squares[j] = of_block;
  }
}

// n neighbouring channels for each thread, where a plane is one element.
template <typename T, int n>
__global__ void __launch_bounds__(kBlockThreads) measure_rows(BatchNormCall call) {
  using A = Compute<T>;
  const Leaves leaves(call);
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, groups = call.channels / n;
  const int64_t leaf = i / groups, c = (i - leaf * groups) * n;
  if (leaf >= leaves.count) return;
  A mean[n], squares[n];
  measure_block<T, n>(static_cast<const T*>(call.x) + start_of(call, leaves, leaf, c),
                      call.channels, static_cast<int>(leaves.size(leaf)), mean, squares);
  for (int j = 0; j < n; ++j) {
    leaf_value<A>(call, leaf, 0)[c + j] = mean[j];
    leaf_value<A>(call, leaf, 1)[c + j] = squares[j];
  }
}

// The rows of a thread where the channels are last.
struct RowsOfThread {
  __device__ RowsOfThread(const BatchNormCall& call, const LeafTile& tile)
      : first(tile.leaf * kRowBlock) {
    const int64_t left = call.samples - first;
    count = left < 0 ? 0 : left < kRowBlock ? static_cast<int>(left) : static_cast<int>(kRowBlock);
  }
  int64_t first;
  int count;
};
__host__ __device__ inline int64_t row_blocks(const BatchNormCall& call) {
  return (call.samples + kRowBlock - 1) / kRowBlock;
}

// A number near the elements of n channels: the mean of some rows.
template <typename T, int n>
__device__ inline void find_pivots(const BatchNormCall& call, int64_t c, Compute<T> (&pivots)[n]) {
  using A = Compute<T>;
  constexpr int kRows = 4;
  const int rows = call.samples < kRows ? static_cast<int>(call.samples) : kRows;
  for (int j = 0; j < n; ++j) pivots[j] = A(0);
  for (int r = 0; r < rows; ++r) {
    const auto row = load_vector<T, n>(static_cast<const T*>(call.x) +
                                       call.samples * r / rows * call.channels + c);
    for (int j = 0; j < n; ++j) pivots[j] = pivots[j] + load_as_compute(row.of[j]);
  }
  for (int j = 0; j < n; ++j) pivots[j] = pivots[j] / static_cast<A>(rows);
}

// The same where the channels are last: the sums of the distances from the pivot and of their
// squares, which a block adds. Sums around a mean would need the rows twice.
template <typename T, int n>
__global__ void __launch_bounds__(kTileThreadsOfFold) measure_last(BatchNormCall call) {
  using A = Compute<T>;
  constexpr int kAhead = 8;
  const int64_t groups = call.channels / n;
  const LeafTile tile(row_blocks(call), groups);
  const RowsOfThread rows(call, tile);
  const int64_t c = tile.group * n;
  A sums[2 * n] = {};  // of distances, and of squares
  if (tile.group < groups && rows.count > 0) {
    A pivots[n];
    find_pivots<T, n>(call, c, pivots);
    const T* x = static_cast<const T*>(call.x) + rows.first * call.channels + c;
    for (int first = 0; first < rows.count; first += kAhead) {
      Vector<T, n> ahead[kAhead];
#pragma unroll
      for (int r = 0; r < kAhead; ++r) {
        if (first + r < rows.count) ahead[r] = load_vector<T, n>(x + (first + r) * call.channels);
      }
#pragma unroll
      for (int r = 0; r < kAhead; ++r) {
        if (first + r >= rows.count) continue;
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const A distance = load_as_compute(ahead[r].of[j]) - pivots[j];
          sums[j] = sums[j] + distance;
          sums[n + j] = sums[n + j] + distance * distance;
        }
      }
    }
  }
  fold_tile(tile, sums, [](A& a, const A& b) { a = a + b; });
  if (tile.group >= groups || !tile.is_first()) return;
  for (int j = 0; j < n; ++j) {
    leaf_value<A>(call, tile.block, 0)[c + j] = sums[j];
    leaf_value<A>(call, tile.block, 1)[c + j] = sums[n + j];
  }
}

template <typename A>
__device__ inline Moments moments_of(const BatchNormCall& call, const Leaves& leaves, int64_t leaf,
                                     int64_t c) {
  return {static_cast<double>(leaves.size(leaf)),
          static_cast<double>(leaf_value<A>(call, leaf, 0)[c]),
          static_cast<double>(leaf_value<A>(call, leaf, 1)[c])};
}

template <typename A>
__device__ inline void finish_channel(const BatchNormCall& call, int64_t c, const Moments& batch) {
  double mean = read(call.mean, c), variance = read(call.variance, c);
  if (call.training) {
    const double population = batch.count > 0 ? batch.squares / batch.count : 0;
    const double running =
        call.unbiased && batch.count > 1 ? batch.squares / (batch.count - 1) : population;
    write(call.results[0], c, mean * call.momentum + batch.mean * (1 - call.momentum));
    write(call.results[1], c, variance * call.momentum + running * (1 - call.momentum));
    mean = batch.mean;
    variance = population;
  } else {
    write(call.results[0], c, mean);
    write(call.results[1], c, variance);
  }
  const double inverse = 1 / std::sqrt(variance + call.epsilon);
  write(call.results[2], c, mean);
  write(call.results[3], c, inverse);
  parameter<A>(call, kMean)[c] = static_cast<A>(mean);
  parameter<A>(call, kFactor)[c] = static_cast<A>(read(call.scale, c) * inverse);
  parameter<A>(call, kBias)[c] = static_cast<A>(read(call.bias, c));
}

// One warp for each channel.
template <typename T>
__global__ void finish_channels(BatchNormCall call) {
  using A = Compute<T>;
  const int64_t c = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (c >= call.channels) return;
  Moments batch{0, 0, 0};
  const Leaves leaves(call);
  if (call.training && leaves.count > 0 && call.area > 0) {
    batch = warp_tree<MergeMoments, Moments>(
        leaves.count, [&](int64_t leaf) { return moments_of<A>(call, leaves, leaf, c); });
  }
  if (threadIdx.x % kWarp == 0) finish_channel<A>(call, c, batch);
}
// The channel of an element. Divisions of 64 bits take several times as long as those of 32.
__device__ inline int64_t channel_of(const BatchNormCall& call, int64_t i) {
  if (call.samples * call.channels * call.area > 0x7fffffff) return i / call.area % call.channels;
  return static_cast<uint32_t>(i) / static_cast<uint32_t>(call.area) %
         static_cast<uint32_t>(call.channels);
}

// The same for neighbouring channels, which are last.
template <typename T>
__global__ void __launch_bounds__(kFoldedColumns* kFoldingRows) finish_last(BatchNormCall call) {
  using A = Compute<T>;
  const Leaves leaves(call);
  fold_leaves<AddTwo, Two>(
      call.channels, leaves.count,
      [&](int64_t leaf, int64_t c) {
        return Two{static_cast<double>(leaf_value<A>(call, leaf, 0)[c]),
                   static_cast<double>(leaf_value<A>(call, leaf, 1)[c])};
      },
      [&](int64_t c, const Two& all) {
        A pivot[1];
        find_pivots<T, 1>(call, c, pivot);
        const auto count = static_cast<double>(call.samples);
        const double shift = all.first / count, squares = all.second - all.first * shift;
        finish_channel<A>(
            call, c, {count, static_cast<double>(pivot[0]) + shift, squares < 0 ? 0 : squares});
      });
}

// A parameter of the channels of n neighbouring elements, which are of n channels (`rows`) or of
// one.
template <typename A, int n, bool rows>
__device__ inline Vector<A, n> parameters_at(const BatchNormCall& call, int which, int64_t c) {
  const A* at = parameter<A>(call, which) + c;
  if constexpr (rows) {
    return load_vector<A, n>(at);
  } else {
    Vector<A, n> same;
    for (int j = 0; j < n; ++j) same.of[j] = *at;
    return same;
  }
}

// The elements of a thread: n neighbours, and so many again in each of some rows, of the same
// channels, where a plane is one element (`rows`).
constexpr int kRowsEach = 8;
template <int n, bool rows>
struct Strided {
  __device__ explicit Strided(const BatchNormCall& call) {
    const int64_t t = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    end = call.samples * call.channels * call.area;
    first = t * n;
    if constexpr (rows) {
      const int64_t threads = (call.samples + kRowsEach - 1) / kRowsEach * call.channels;
      step = threads;
      if (first >= threads) first = end;
    }
  }
  int64_t first, step = 0, end;
};
template <int n, bool rows>
LaunchShape strided_shape(const BatchNormCall& call) {
  const int64_t elements = rows ? (call.samples + kRowsEach - 1) / kRowsEach * call.channels
                                : call.samples * call.channels * call.area;
  return one_thread_each(elements / n);
}

template <typename T, int n, bool rows>
__global__ void normalize(BatchNormCall call) {
  using A = Compute<T>;
  const Strided<n, rows> at(call);
  if (at.first >= at.end) return;
  const int64_t c = channel_of(call, at.first);
  const auto mean = parameters_at<A, n, rows>(call, kMean, c);
  const auto factor = parameters_at<A, n, rows>(call, kFactor, c);
  const auto bias = parameters_at<A, n, rows>(call, kBias, c);
#pragma unroll 4
  for (int r = 0; r < (rows ? kRowsEach : 1); ++r) {
    const int64_t i = at.first + r * at.step;
    if (i >= at.end) return;
    Vector<T, n> x = load_vector<T, n>(static_cast<const T*>(call.x) + i);
#pragma unroll
    for (int j = 0; j < n; ++j)
      x.of[j] = store_from_compute<T>((load_as_compute(x.of[j]) - mean.of[j]) * factor.of[j] +
                                      bias.of[j]);
    store_vector(static_cast<T*>(call.y) + i, x);
  }
}

// Adds dy, and dy times the deviation of x, over `count` rows of n neighbouring channels.
template <typename T, int n>
__device__ inline void sum_gradient_block(const BatchNormCall& call, int64_t start, int64_t c,
                                          int count, Compute<T> (&sum)[n], Compute<T> (&dot)[n]) {
  using A = Compute<T>;
  constexpr int kAhead = 4;
  const T *x = static_cast<const T*>(call.x) + start, *dy = static_cast<const T*>(call.dy) + start;
  A mean[n];
  for (int j = 0; j < n; ++j) {
    mean[j] = static_cast<A>(read(call.mean, c + j));
    sum[j] = dot[j] = A(0);
  }
  for (int first = 0; first < count; first += kAhead) {
    Vector<T, n> of_x[kAhead], of_dy[kAhead];
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      if (first + r >= count) continue;
      of_x[r] = load_vector<T, n>(x + (first + r) * call.channels);
      of_dy[r] = load_vector<T, n>(dy + (first + r) * call.channels);
    }
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      if (first + r >= count) continue;
#pragma unroll
      for (int j = 0; j < n; ++j) {
        const A g = load_as_compute(of_dy[r].of[j]);
        sum[j] = sum[j] + g;
        dot[j] = dot[j] + g * (load_as_compute(of_x[r].of[j]) - mean[j]);
      }
    }
  }
}

// n neighbouring channels for each thread, where a plane is one element.
template <typename T, int n>
__global__ void sum_gradient_rows(BatchNormCall call) {
  using A = Compute<T>;
  const Leaves leaves(call);
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, groups = call.channels / n;
  const int64_t leaf = i / groups, c = (i - leaf * groups) * n;
  if (leaf >= leaves.count) return;
  A sum[n], dot[n];
  sum_gradient_block<T, n>(call, start_of(call, leaves, leaf, c), c,
                           static_cast<int>(leaves.size(leaf)), sum, dot);
  for (int j = 0; j < n; ++j) {
    leaf_value<A>(call, leaf, 0)[c + j] = sum[j];
    leaf_value<A>(call, leaf, 1)[c + j] = dot[j];
  }
}

// The same where the channels are last: a block adds what its threads find.
template <typename T, int n>
__global__ void __launch_bounds__(kTileThreadsOfFold) sum_gradient_last(BatchNormCall call) {
  using A = Compute<T>;
  const int64_t groups = call.channels / n;
  const LeafTile tile(row_blocks(call), groups);
  const RowsOfThread rows(call, tile);
  const int64_t c = tile.group * n;
  A sum[n] = {}, dot[n] = {};
  if (tile.group < groups && rows.count > 0)
    sum_gradient_block<T, n>(call, rows.first * call.channels + c, c, rows.count, sum, dot);
  const auto add = [](A& a, const A& b) { a = a + b; };
  fold_tile(tile, sum, add);
  __syncthreads();
  fold_tile(tile, dot, add);
  if (tile.group >= groups || !tile.is_first()) return;
  for (int j = 0; j < n; ++j) {
    leaf_value<A>(call, tile.block, 0)[c + j] = sum[j];
    leaf_value<A>(call, tile.block, 1)[c + j] = dot[j];
  }
}

template <typename T, int n>
__global__ void __launch_bounds__(kLeafWarps* kWarp) sum_gradients(BatchNormCall call) {
  using A = Compute<T>;
  __shared__ LeafMemory<T, n> of_x, of_dy;
  const Leaves leaves(call);
  int64_t leaf, c;
  if (!find_leaf(call, leaves, leaf, c)) return;
  const int64_t start = start_of(call, leaves, leaf, c), count = leaves.size(leaf);
  const int64_t step = leaves.of_rows ? call.channels : 1;
  const T* x = gathered(of_x, static_cast<const T*>(call.x) + start, count);
  const T* dy = gathered(of_dy, static_cast<const T*>(call.dy) + start, count);
  const A mean = static_cast<A>(read(call.mean, c));
  const A sum =
      sum_leaf<A>(leaves.of_rows, count, [&](int64_t i) { return load_as_compute(dy[i * step]); });
  const A dot = sum_leaf<A>(leaves.of_rows, count, [&](int64_t i) {
    return load_as_compute(dy[i * step]) * (load_as_compute(x[i * step]) - mean);
  });
  if (!leaves.of_rows && threadIdx.x % kWarp != 0) return;
  leaf_value<A>(call, leaf, 0)[c] = sum;
  leaf_value<A>(call, leaf, 1)[c] = dot;
}

// By one warp, for its lane 0.
template <typename A>
__device__ inline double total(const BatchNormCall& call, const Leaves& leaves, int64_t c,
                               int which) {
  if (leaves.count == 0 || call.area == 0) return 0;
  return warp_tree<SumFold, double>(leaves.count, [&](int64_t leaf) {
    return static_cast<double>(leaf_value<A>(call, leaf, which)[c]);
  });
}

template <typename A>
__device__ inline void finish_gradient(const BatchNormCall& call, int64_t c, double sum,
                                       double dot) {
  const double inverse = read(call.variance, c);
  const int64_t elements = call.samples * call.area;
  const double count = static_cast<double>(elements > 1 ? elements : 1);
  write(call.results[0], c, dot * inverse);
  write(call.results[1], c, sum);
  parameter<A>(call, kMean)[c] = static_cast<A>(read(call.mean, c));
  parameter<A>(call, kFactor)[c] = static_cast<A>(read(call.scale, c) * inverse);
  parameter<A>(call, kBias)[c] = static_cast<A>(call.training ? sum / count : 0);
  parameter<A>(call, kSlope)[c] =
      static_cast<A>(call.training ? inverse * inverse * dot / count : 0);
}

// One warp for each channel.
template <typename T>
__global__ void finish_gradients(BatchNormCall call) {
  using A = Compute<T>;
  const int64_t c = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (c >= call.channels) return;
  const Leaves leaves(call);
  const double sum = total<A>(call, leaves, c, 0), dot = total<A>(call, leaves, c, 1);
  if (threadIdx.x % kWarp == 0) finish_gradient<A>(call, c, sum, dot);
}

// The same for many leaves of neighbouring channels.
template <typename T>
__global__ void __launch_bounds__(kFoldedColumns* kFoldingRows)
    finish_gradient_neighbours(BatchNormCall call) {
  using A = Compute<T>;
  const Leaves leaves(call);
  fold_leaves<AddTwo, Two>(
      call.channels, leaves.count,
      [&](int64_t leaf, int64_t c) {
        return Two{static_cast<double>(leaf_value<A>(call, leaf, 0)[c]),
                   static_cast<double>(leaf_value<A>(call, leaf, 1)[c])};
      },
      [&](int64_t c, const Two& all) { finish_gradient<A>(call, c, all.first, all.second); });
}

template <typename T, int n, bool rows>
__global__ void differentiate(BatchNormCall call) {
  using A = Compute<T>;
  const Strided<n, rows> at(call);
  if (at.first >= at.end) return;
  const int64_t c = channel_of(call, at.first);
  const auto mean = parameters_at<A, n, rows>(call, kMean, c);
  const auto factor = parameters_at<A, n, rows>(call, kFactor, c);
  const auto bias = parameters_at<A, n, rows>(call, kBias, c);
  const auto slope = parameters_at<A, n, rows>(call, kSlope, c);
#pragma unroll 4
  for (int r = 0; r < (rows ? kRowsEach : 1); ++r) {
    const int64_t i = at.first + r * at.step;
    if (i >= at.end) return;
    const Vector<T, n> x = load_vector<T, n>(static_cast<const T*>(call.x) + i);
    Vector<T, n> dy = load_vector<T, n>(static_cast<const T*>(call.dy) + i);
#pragma unroll
    for (int j = 0; j < n; ++j)
      dy.of[j] = store_from_compute<T>(factor.of[j] *
                                       (load_as_compute(dy.of[j]) - bias.of[j] -
                                        (load_as_compute(x.of[j]) - mean.of[j]) * slope.of[j]));
    store_vector(static_cast<T*>(call.y) + i, dy);
  }
}

// True if one thread may have neighbouring channels, which are neighbours in memory.
template <typename T>
bool has_rows(const BatchNormCall& call) {
  constexpr int n = neighbours_of<T>();
  return n > 1 && call.area == 1 && call.channels % n == 0 && is_aligned(call.x) &&
         is_aligned(call.dy) && is_aligned(call.y) && is_aligned(call.workspace);
}

template <typename T>
cudaError_t launch_norm_of_rows(const BatchNormCall& call, cudaStream_t stream) {
  constexpr int n = neighbours_of<T>();
  const Leaves leaves(call);
  cudaError_t error = cudaSuccess;
  if (call.training && call.channels_last)
    error = launch<&measure_last<T, n>>(leaf_tile_shape(row_blocks(call), call.channels / n),
                                        stream, call);
  else if (call.training)
    error = launch<&measure_rows<T, n>>(one_thread_each(leaves.count * (call.channels / n)), stream,
                                        call);
  if (error == cudaSuccess && call.training && call.channels_last)
    error = launch<&finish_last<T>>(folding_shape(call.channels), stream, call);
  else if (error == cudaSuccess)
    error = launch<&finish_channels<T>>(one_warp_each(call.channels), stream, call);
  if (error != cudaSuccess) return error;
  return launch<&normalize<T, n, true>>(strided_shape<n, true>(call), stream, call);
}

template <typename T>
cudaError_t launch_grad_of_rows(const BatchNormCall& call, cudaStream_t stream) {
  constexpr int n = neighbours_of<T>();
  const Leaves leaves(call);
  cudaError_t error = call.channels_last
                          ? launch<&sum_gradient_last<T, n>>(
                                leaf_tile_shape(row_blocks(call), call.channels / n), stream, call)
                          : launch<&sum_gradient_rows<T, n>>(
                                one_thread_each(leaves.count * (call.channels / n)), stream, call);
  if (error == cudaSuccess)
    error = launch<&finish_gradient_neighbours<T>>(folding_shape(call.channels), stream, call);
  if (error != cudaSuccess || !call.y) return error;
  return launch<&differentiate<T, n, true>>(strided_shape<n, true>(call), stream, call);
}

// Calls f with the number of neighbours that one thread may have: all of them are of one channel.
template <typename T, typename F>
cudaError_t with_neighbours(const BatchNormCall& call, F f) {
  constexpr int kMost = neighbours_of<T>(), kFewer = kMost > 4 ? 4 : kMost > 1 ? 2 : 1;
  const bool aligned = is_aligned(call.x) && is_aligned(call.dy) && is_aligned(call.y);
  if (aligned && call.area % kMost == 0) return f(std::integral_constant<int, kMost>{});
  if (aligned && call.area % kFewer == 0) return f(std::integral_constant<int, kFewer>{});
  return f(std::integral_constant<int, 1>{});
}

}  // namespace

size_t batch_norm_workspace(const BatchNormCall& call) {
  return static_cast<size_t>((2 * Leaves(call).count + kParameters) * call.channels) *
         sizeof(double);
}

cudaError_t launch_batch_norm(const BatchNormCall& call, DType dtype, cudaStream_t stream) {
  if (call.channels == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    const Leaves leaves(call);
    const int64_t elements = call.samples * call.channels * call.area;
    if (elements > 0 && has_rows<T>(call)) return launch_norm_of_rows<T>(call, stream);
    cudaError_t error = cudaSuccess;
    if (call.training && elements > 0)
      error = with_neighbours<T>(call, [&](auto n) {
        return launch<&measure<T, decltype(n)::value>>(shape_of(call, leaves), stream, call);
      });
    if (error == cudaSuccess)
      error = launch<&finish_channels<T>>(one_warp_each(call.channels), stream, call);
    if (error == cudaSuccess && elements > 0)
      error = with_neighbours<T>(call, [&](auto n) {
        return launch<&normalize<T, decltype(n)::value, false>>(
            strided_shape<decltype(n)::value, false>(call), stream, call);
      });
    return error;
  });
}

cudaError_t launch_batch_norm_grad(const BatchNormCall& call, DType dtype, cudaStream_t stream) {
  if (call.channels == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    const Leaves leaves(call);
    const int64_t elements = call.samples * call.channels * call.area;
    if (elements > 0 && has_rows<T>(call)) return launch_grad_of_rows<T>(call, stream);
    cudaError_t error = cudaSuccess;
    if (elements > 0) {
      error = with_neighbours<T>(call, [&](auto n) {
        return launch<&sum_gradients<T, decltype(n)::value>>(shape_of(call, leaves), stream, call);
      });
    }
    if (error == cudaSuccess)
      error = launch<&finish_gradients<T>>(one_warp_each(call.channels), stream, call);
    if (error == cudaSuccess && elements > 0 && call.y)
      error = with_neighbours<T>(call, [&](auto n) {
        return launch<&differentiate<T, decltype(n)::value, false>>(
            strided_shape<decltype(n)::value, false>(call), stream, call);
      });
    return error;
  });
}

}  // namespace leat::cuda
