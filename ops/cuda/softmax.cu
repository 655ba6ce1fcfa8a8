#include <cmath>

#include "devices/cuda/complaint.h"
#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/softmax.h"
#include "ops/cuda/vector.cuh"
#include "ops/cuda/warp_fold.cuh"
#include "ops/elements/vector_math.h"

namespace leat::cuda {
namespace {

// One warp for each line. Each pass reads its operands again, so that no memory beside them is
// needed; what is written is rounded to the dtype once.
template <typename T>
__global__ void softmax_lines(SoftmaxCall call) {
  using A = Compute<T>;
  const int64_t line = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (line >= call.lines) return;
  const int64_t at = line / call.inner * call.size * call.inner + line % call.inner;
  const T* a = static_cast<const T*>(call.a) + at;
  const T* b = call.b ? static_cast<const T*>(call.b) + at : nullptr;
  T* y = static_cast<T*>(call.y) + at;
  const auto first = [&](int64_t i) { return load_as_compute(a[i * call.inner]); };
  const auto second = [&](int64_t i) { return load_as_compute(b[i * call.inner]); };
  const auto write = [&](auto value) {
    for (int64_t i = threadIdx.x % kWarp; i < call.size; i += kWarp)
      y[i * call.inner] = store_from_compute<T>(value(i));
  };
  switch (call.kind) {
    case SoftmaxKind::softmax: {
      const A largest = warp_max<A>(call.size, first);
      const auto power = [&](int64_t i) { return vmath::exp(first(i) - largest); };
      const A sum = warp_tree_sum<A>(call.size, power);
      return write([&](int64_t i) { return power(i) / sum; });
    }
    case SoftmaxKind::log_softmax: {
      const A largest = warp_max<A>(call.size, first);
      const A log_sum = std::log(
          warp_tree_sum<A>(call.size, [&](int64_t i) { return vmath::exp(first(i) - largest); }));
      return write([&](int64_t i) { return (first(i) - largest) - log_sum; });
    }
    case SoftmaxKind::softmax_grad: {
      const A sum = warp_tree_sum<A>(call.size, [&](int64_t i) { return first(i) * second(i); });
      return write([&](int64_t i) { return second(i) * (first(i) - sum); });
    }
    case SoftmaxKind::log_softmax_grad: {
      const A sum = warp_tree_sum<A>(call.size, first);
      return write([&](int64_t i) { return first(i) - vmath::exp(second(i)) * sum; });
    }
  }
}

__device__ inline int64_t label_of(const LossCall& call, int64_t position) {
  return call.wide_labels ? static_cast<const int64_t*>(call.labels)[position]
                          : static_cast<const int32_t*>(call.labels)[position];
}
// The index of the score of class 0; those of the others are `inner` apart.
__device__ inline int64_t scores_at(const LossCall& call, int64_t position) {
  return position / call.inner * call.classes * call.inner + position % call.inner;
}

// The folds of a line by one warp, for all of its lanes.
template <typename A>
struct ByWarp {
  __device__ static unsigned lane() { return threadIdx.x % kWarp; }
  static constexpr unsigned kLanes = kWarp;
  template <typename Value>
  __device__ A largest(int64_t n, Value value) {
    return warp_max<A>(n, value);
  }
  template <typename Value>
  __device__ A sum(int64_t n, Value value) {
    return warp_tree_sum<A>(n, value);
  }
};

// The same by a block of `lanes` threads, for all of them: each warp folds some blocks of the line.
template <typename A, unsigned lanes>
struct ByBlock {
  static constexpr unsigned kLanes = lanes;
  static constexpr int64_t kMost = kLanes / kWarp * 4 * kLineBlock;  // elements of a line
  __device__ ByBlock(A* memory) : memory_(memory) {}
  __device__ static unsigned lane() { return threadIdx.x; }
  template <typename Value>
  __device__ A largest(int64_t n, Value value) {
    A mine = MaxFold::identity<A>();
    const auto count = static_cast<int>(n);
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(kLanes))
      MaxFold::into(mine, value(i));
    mine = fold_lanes<MaxFold>(mine);
    if (threadIdx.x % kWarp == 0) memory_[threadIdx.x / kWarp] = mine;
    __syncthreads();
    constexpr unsigned kWarps = kLanes / kWarp;
    static_assert(kWarps == kWarp);
    const A all = fold_lanes_for_all<MaxFold>(memory_[threadIdx.x % kWarps]);
    __syncthreads();
    return all;
  }
  template <typename Value>
  __device__ A sum(int64_t n, Value value) {
    const int64_t blocks = (n + kLineBlock - 1) / kLineBlock;
    for (int64_t b = threadIdx.x / kWarp; b < blocks; b += kLanes / kWarp) {
      const int64_t begin = b * kLineBlock, end = begin + kLineBlock < n ? begin + kLineBlock : n;
      A part = SumFold::identity<A>();
      const auto last = static_cast<int>(end);
      int i = static_cast<int>(begin + threadIdx.x % kWarp);
      // Some at a time: an exponential takes longer than the sum waits.
      constexpr int kAhead = 8, kStep = static_cast<int>(kWarp);
      for (; i + (kAhead - 1) * kStep < last; i += kAhead * kStep) {
        A ahead[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) ahead[k] = value(i + k * kStep);
#pragma unroll
        for (int k = 0; k < kAhead; ++k) SumFold::into(part, ahead[k]);
      }
      for (; i < last; i += kStep) SumFold::into(part, value(i));
      part = fold_lanes<SumFold>(part);
      if (threadIdx.x % kWarp == 0) memory_[b] = part;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
      const A whole = warp_tree<SumFold, A>(blocks, [&](int64_t block) { return memory_[block]; });
      __syncwarp();
      if (threadIdx.x == 0) memory_[0] = whole;
    }
    __syncthreads();
    const A all = memory_[0];
    __syncthreads();
    return all;
  }

 private:
  A* memory_;  // shared, for kMost / kLineBlock numbers
};

// One position: its log probabilities, its loss and its weight. score(c) is that of class c.
template <typename T, typename Folds, typename Score>
__device__ inline void find_loss(const LossCall& call, int64_t position, Folds folds, Score score) {
  using A = Compute<T>;
  const unsigned lane = Folds::lane();
  const int64_t label = label_of(call, position);
  const bool ignored = call.has_ignored && label == call.ignored;
  const bool legal = label >= 0 && label < call.classes;
  if (!ignored && !legal && lane == 0) call.complaint->write(position, label);
  A log_prob(0);
  if (call.given_log_prob) {
    if (legal) log_prob = score(label);
  } else if (!ignored || call.log_prob || call.stats) {
    const A largest = folds.largest(call.classes, score);
    const A log_sum = std::log(
        folds.sum(call.classes, [&](int64_t c) { return vmath::exp(score(c) - largest); }));
    if (call.log_prob) {
      T* out = static_cast<T*>(call.log_prob) + scores_at(call, position);
      for (int64_t c = lane; c < call.classes; c += Folds::kLanes)
        out[c * call.inner] = store_from_compute<T>((score(c) - largest) - log_sum);
    }
    if (legal) log_prob = (score(label) - largest) - log_sum;
    if (call.stats && lane == 0) {
      static_cast<A*>(call.stats)[position] = largest;
      static_cast<A*>(call.stats)[call.positions + position] = log_sum;
    }
  }
  if (lane != 0) return;
  A weight(ignored || !legal ? 0 : 1);
  if (weight != 0 && call.weights)
    weight = load_as_compute(static_cast<const T*>(call.weights)[label]);
  const A loss = ignored || !legal ? A(0) : -log_prob * weight;
  if (call.mean == LossMean::none) {
    static_cast<T*>(call.loss)[position] = store_from_compute<T>(loss);
    return;
  }
  A* losses = static_cast<A*>(call.workspace);
  losses[position] = loss;
  losses[call.positions + position] = weight;
}

// One warp for each position, whose scores are of S.
template <typename T, typename S>
__global__ void losses_of_positions(LossCall call) {
  const int64_t position = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (position >= call.positions) return;
  const S* scores = static_cast<const S*>(call.scores) + scores_at(call, position);
  find_loss<T>(call, position, ByWarp<Compute<T>>(),
               [&](int64_t c) { return load_as_compute(scores[c * call.inner]); });
}

// One block for each position of many classes, whose scores are read once and held in shared
// memory.
constexpr unsigned kLossThreads = 1024;
template <typename T, typename S, int n>
__global__ void __launch_bounds__(kLossThreads) losses_of_long_positions(LossCall call) {
  using A = Compute<T>;
  using Folds = ByBlock<A, kLossThreads>;
  __shared__ A memory[Folds::kMost / kLineBlock];
  LEAT_DYNAMIC_SHARED(S, held);
  const S* scores = static_cast<const S*>(call.scores) + blockIdx.x * call.classes;
#pragma unroll 4
  for (int64_t c = threadIdx.x * n; c < call.classes; c += kLossThreads * n)
    store_vector(held + c, load_vector<S, n>(scores + c));
  __syncthreads();
  find_loss<T>(call, blockIdx.x, Folds(memory),
               [&](int64_t c) { return load_as_compute(held[c]); });
}
template <typename T, typename S>
bool holds_scores(const LossCall& call) {
  using A = Compute<T>;
  using Folds = ByBlock<A, kLossThreads>;
  constexpr size_t kStatic = sizeof(A) * Folds::kMost / kLineBlock;
  return !call.given_log_prob && call.inner == 1 && call.classes >= 2 * kLineBlock &&
         call.classes <= Folds::kMost &&
         static_cast<size_t>(call.classes) * sizeof(S) + kStatic <= call.shared_bytes &&
         call.positions < (int64_t{1} << 31);
}

// One warp: the tree over all positions.
template <typename T>
__global__ void reduce_losses(LossCall call) {
  using A = Compute<T>;
  const A* losses = static_cast<const A*>(call.workspace);
  A loss = warp_tree_sum<A>(call.positions, [&](int64_t i) { return losses[i]; });
  if (call.mean == LossMean::mean)
    loss = loss /
           warp_tree_sum<A>(call.positions, [&](int64_t i) { return losses[call.positions + i]; });
  if (threadIdx.x == 0) *static_cast<T*>(call.loss) = store_from_compute<T>(loss);
}

template <typename T>
__device__ inline Compute<T> weight_of(const LossCall& call, int64_t label) {
  using A = Compute<T>;
  if (call.has_ignored && label == call.ignored) return A(0);
  if (label < 0 || label >= call.classes) return A(0);
  return call.weights ? load_as_compute(static_cast<const T*>(call.weights)[label]) : A(1);
}

// One warp: the sum of the weights of all positions, to the start of the workspace.
template <typename T>
__global__ void sum_weights(LossCall call) {
  using A = Compute<T>;
  const A sum = warp_tree_sum<A>(call.positions,
                                 [&](int64_t i) { return weight_of<T>(call, label_of(call, i)); });
  if (threadIdx.x == 0) *static_cast<A*>(call.workspace) = sum;
}

__host__ __device__ inline bool sums_weights(const LossCall& call) {
  return call.mean == LossMean::mean && (call.weights || call.has_ignored);
}

// The factor of a position's gradient: 0 for a position that does not count.
template <typename T>
__device__ inline Compute<T> grad_factor(const LossCall& call, int64_t position, int64_t label) {
  using A = Compute<T>;
  const bool ignored = call.has_ignored && label == call.ignored;
  if (!ignored && (label < 0 || label >= call.classes) && threadIdx.x % kWarp == 0)
    call.complaint->write(position, label);
  if (ignored) return A(0);
  const A dloss = load_as_compute(
      static_cast<const T*>(call.dloss)[call.mean == LossMean::none ? position : 0]);
  const A factor = dloss * weight_of<T>(call, label);
  if (sums_weights(call)) return factor / *static_cast<const A*>(call.workspace);
  return call.mean == LossMean::mean ? factor / static_cast<A>(call.positions) : factor;
}

// One warp for each position. Positions of weight 0 get zeros, even if their log probabilities are
// NaN.
template <typename T>
__global__ void cross_entropy_grad(LossCall call) {
  using A = Compute<T>;
  const int64_t position = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (position >= call.positions) return;
  const unsigned lane = threadIdx.x % kWarp;
  const int64_t label = label_of(call, position);
  const A factor = grad_factor<T>(call, position, label);
  const T* log_prob = static_cast<const T*>(call.scores) + scores_at(call, position);
  T* dx = static_cast<T*>(call.dx) + scores_at(call, position);
  for (int64_t c = lane; c < call.classes; c += kWarp) {
    A value(0);
    if (factor != 0 && call.given_log_prob) {
      if (c == label) value = -factor;
    } else if (factor != 0) {
      value = vmath::exp(load_as_compute(log_prob[c * call.inner])) * factor;
      if (c == label) value = value - factor;
    }
    dx[c * call.inner] = store_from_compute<T>(value);
  }
}

// The same from scores of S and the stats of their positions, n classes at a time.
template <typename S, int n>
__global__ void stats_grad(LossCall call) {
  using A = Compute<S>;
  const int64_t position = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (position >= call.positions) return;
  const int64_t label = label_of(call, position);
  const A factor = grad_factor<A>(call, position, label);
  const A largest = static_cast<const A*>(call.stats)[position];
  const A log_sum = static_cast<const A*>(call.stats)[call.positions + position];
  const S* scores = static_cast<const S*>(call.scores) + scores_at(call, position);
  S* dx = static_cast<S*>(call.dx) + scores_at(call, position);
#pragma unroll 2
  for (int64_t c = threadIdx.x % kWarp * n; c < call.classes; c += kWarp * n) {
    Vector<S, n> some = load_vector<S, n>(scores + c * call.inner);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      A value(0);
      if (factor != 0) {
        value = vmath::exp((load_as_compute(some.of[j]) - largest) - log_sum) * factor;
        if (c + j == label) value = value - factor;
      }
      some.of[j] = store_from_compute<S>(value);
    }
    store_vector(dx + c * call.inner, some);
  }
}

// Calls f with the number of classes that a thread may read at once.
template <typename S, typename F>
cudaError_t with_classes(const LossCall& call, F f) {
  constexpr int n = neighbours_of<S>();
  if (call.inner == 1 && call.classes % n == 0 && is_aligned(call.scores) && is_aligned(call.dx))
    return f(std::integral_constant<int, n>{});
  return f(std::integral_constant<int, 1>{});
}

template <typename T, typename S>
cudaError_t launch_losses(const LossCall& call, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  if (call.positions > 0 && holds_scores<T, S>(call)) {
    LaunchShape shape{dim3(static_cast<unsigned>(call.positions)), dim3(kLossThreads)};
    shape.shared = static_cast<size_t>(call.classes) * sizeof(S);
    error = with_classes<S>(call, [&](auto n) {
      return launch<&losses_of_long_positions<T, S, decltype(n)::value>>(shape, stream, call);
    });
  } else if (call.positions > 0) {
    error = launch<&losses_of_positions<T, S>>(one_warp_each(call.positions), stream, call);
  }
  if (error != cudaSuccess || call.mean == LossMean::none) return error;
  return launch<&reduce_losses<T>>({dim3(1), dim3(kWarp)}, stream, call);
}

}  // namespace

cudaError_t launch_softmax(const SoftmaxCall& call, DType dtype, cudaStream_t stream) {
  if (call.lines == 0 || call.size == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&softmax_lines<decltype(zero)>>(one_warp_each(call.lines), stream, call);
  });
}

cudaError_t launch_cross_entropy(const LossCall& call, DType dtype, cudaStream_t stream) {
  return dispatch_floats(dtype, [&](auto zero) {
    return launch_losses<decltype(zero), decltype(zero)>(call, stream);
  });
}

cudaError_t launch_stats(const LossCall& call, DType scores, cudaStream_t stream) {
  return dispatch_floats(scores, [&](auto zero) {
    return launch_losses<Compute<decltype(zero)>, decltype(zero)>(call, stream);
  });
}

cudaError_t launch_cross_entropy_grad(const LossCall& call, DType dtype, cudaStream_t stream) {
  if (call.positions == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (sums_weights(call)) {
      const auto error = launch<&sum_weights<T>>({dim3(1), dim3(kWarp)}, stream, call);
      if (error != cudaSuccess) return error;
    }
    return launch<&cross_entropy_grad<T>>(one_warp_each(call.positions), stream, call);
  });
}

cudaError_t launch_stats_grad(const LossCall& call, DType scores, cudaStream_t stream) {
  if (call.positions == 0) return cudaSuccess;
  return dispatch_floats(scores, [&](auto zero) {
    using S = decltype(zero);
    if (sums_weights(call)) {
      const auto error = launch<&sum_weights<Compute<S>>>({dim3(1), dim3(kWarp)}, stream, call);
      if (error != cudaSuccess) return error;
    }
    return with_classes<S>(call, [&](auto n) {
      return launch<&stats_grad<S, decltype(n)::value>>(one_warp_each(call.positions), stream,
                                                        call);
    });
  });
}

}  // namespace leat::cuda
