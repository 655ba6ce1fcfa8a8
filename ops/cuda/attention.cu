#include <cmath>
#include <limits>

#include "devices/cuda/launch.h"
#include "ops/cuda/attention_scores.cuh"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/warp_fold.cuh"

namespace leat::cuda {
namespace {

constexpr int kColumnsEach = static_cast<int>(kMostHeadColumns / kWarp);

// One query: its row of the batch, its head, the head of K and V that it meets, and its row.
struct Query {
  int64_t n, h, kv, row;
};
__device__ inline Query query_of(const AttentionCall& call, int64_t number) {
  const int64_t h = number / call.queries % call.q_heads;
  return {number / call.queries / call.q_heads, h, h / (call.q_heads / call.kv_heads),
          number % call.queries};
}

template <typename T>
__device__ inline Compute<T> dot(const T* a, const T* b, int64_t n) {
  Compute<T> sum(0);
  for (int64_t i = 0; i < n; ++i) sum += load_as_compute(a[i]) * load_as_compute(b[i]);
  return sum;
}

template <typename T>
__device__ inline Compute<T> score(const AttentionCall& call, int64_t n, int64_t h, int64_t row,
                                   int64_t key, const T* q, const T* k, Compute<T>* slope) {
  using A = Compute<T>;
  return score_of<T>(call, n, h, row, key, dot(q, k, call.head) * static_cast<A>(call.scale),
                     slope);
}

// One warp for each query of each head: 32 keys at a time, one for each lane, and then the columns
// of V, with the largest score and the sum of the exponentials so far.
template <typename T>
__global__ void attend(AttentionCall call) {
  using A = Compute<T>;
  constexpr A kNothing = -std::numeric_limits<A>::infinity();
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= call.batch * call.q_heads * call.queries) return;
  const int64_t lane = threadIdx.x % kWarp;
  const auto [n, h, kv, row] = query_of(call, warp);
  const T* q = static_cast<const T*>(call.q) + call.of_q.at(n, h, row);
  const Keys keys = visible(call, n, row);
  A largest = kNothing, sum(0), columns[kColumnsEach] = {};
  for (int64_t first = keys.first; first < keys.last; first += kWarp) {
    const int64_t key = first + lane;
    A slope, x = kNothing;
    if (key < keys.last)
      x = score(call, n, h, row, key, q, static_cast<const T*>(call.k) + call.of_k.at(n, kv, key),
                &slope);
    A m = fold_lanes_for_all<MaxFold>(x);
    MaxFold::into(m, largest);
    const A p = vmath::exp(x - (m == kNothing ? A(0) : m));
    const A factor = largest == kNothing ? A(0) : vmath::exp(largest - m);
    sum = sum * factor + fold_lanes_for_all<SumFold>(p);
    largest = m;
    for (int c = 0; c < kColumnsEach; ++c) columns[c] *= factor;
    for (int other = 0; other < static_cast<int>(kWarp); ++other) {
      const A weight = __shfl_sync(kAllLanes, p, other);
      if (first + other >= keys.last) continue;
      const T* v = static_cast<const T*>(call.v) + call.of_v.at(n, kv, first + other);
      for (int64_t c = 0, j = lane; j < call.v_head; ++c, j += kWarp)
        columns[c] += weight * load_as_compute(v[j]);
    }
  }
  // A query that sees no key has zeros.
  const bool empty = sum == A(0);
  T* y = static_cast<T*>(call.y) + call.of_y.at(n, h, row);
  for (int64_t c = 0, j = lane; j < call.v_head; ++c, j += kWarp)
    y[j] = store_from_compute<T>(empty ? A(0) : columns[c] / sum);
  if (lane == 0 && call.log_sums) {
    static_cast<A*>(call.log_sums)[warp] = empty ? -kNothing : largest + std::log(sum);
  }
}

// A probability and the gradient of its score, of query `row` and one key; both 0 if the query does
// not see the key.
template <typename T>
struct Pair {
  Compute<T> p, d;
};
template <typename T>
__device__ inline Pair<T> pair_of(const AttentionCall& call, int64_t n, int64_t h, int64_t kv,
                                  int64_t row, int64_t key, Compute<T> mean) {
  using A = Compute<T>;
  A slope;
  const A x = score(call, n, h, row, key, static_cast<const T*>(call.q) + call.of_q.at(n, h, row),
                    static_cast<const T*>(call.k) + call.of_k.at(n, kv, key), &slope);
  const A log_sum =
      static_cast<const A*>(call.log_sums)[(n * call.q_heads + h) * call.queries + row];
  const A p = vmath::exp(x - log_sum);
  const A weighted = dot(static_cast<const T*>(call.dy) + call.of_y.at(n, h, row),
                         static_cast<const T*>(call.v) + call.of_v.at(n, kv, key), call.v_head);
  return {p, p * (weighted - mean) * slope};
}
template <typename T>
__device__ inline Compute<T> mean_of(const AttentionCall& call, int64_t n, int64_t h, int64_t row) {
  const int64_t at = call.of_y.at(n, h, row);
  return dot(static_cast<const T*>(call.dy) + at, static_cast<const T*>(call.y) + at, call.v_head);
}

// One warp for each query: dQ.
template <typename T>
__global__ void attend_back_queries(AttentionCall call) {
  using A = Compute<T>;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= call.batch * call.q_heads * call.queries) return;
  const int64_t lane = threadIdx.x % kWarp;
  const auto [n, h, kv, row] = query_of(call, warp);
  const A mean = mean_of<T>(call, n, h, row);
  const Keys keys = visible(call, n, row);
  A columns[kColumnsEach] = {};
  for (int64_t first = keys.first; first < keys.last; first += kWarp) {
    A d(0);
    if (first + lane < keys.last) d = pair_of<T>(call, n, h, kv, row, first + lane, mean).d;
    for (int other = 0; other < static_cast<int>(kWarp); ++other) {
      const A slope = __shfl_sync(kAllLanes, d, other);
      if (first + other >= keys.last) continue;
      const T* k = static_cast<const T*>(call.k) + call.of_k.at(n, kv, first + other);
      for (int64_t c = 0, j = lane; j < call.head; ++c, j += kWarp)
        columns[c] += slope * load_as_compute(k[j]);
    }
  }
  T* dq = static_cast<T*>(call.dq) + call.of_q.at(n, h, row);
  for (int64_t c = 0, j = lane; j < call.head; ++c, j += kWarp)
    dq[j] = store_from_compute<T>(columns[c] * static_cast<A>(call.scale));
}

// One warp for each key: dK and dV, over the heads and queries that meet it, in their order.
template <typename T>
__global__ void attend_back_keys(AttentionCall call) {
  using A = Compute<T>;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= call.batch * call.kv_heads * call.keys) return;
  const int64_t lane = threadIdx.x % kWarp;
  const int64_t key = warp % call.keys, kv = warp / call.keys % call.kv_heads;
  const int64_t n = warp / call.keys / call.kv_heads;
  const int64_t group = call.q_heads / call.kv_heads;
  A of_k[kColumnsEach] = {}, of_v[kColumnsEach] = {};
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    for (int64_t first = 0; first < call.queries; first += kWarp) {
      Pair<T> mine{A(0), A(0)};
      const int64_t row = first + lane;
      if (row < call.queries) {
        const Keys keys = visible(call, n, row);
        if (key >= keys.first && key < keys.last)
          mine = pair_of<T>(call, n, h, kv, row, key, mean_of<T>(call, n, h, row));
      }
      for (int other = 0; other < static_cast<int>(kWarp); ++other) {
        const A p = __shfl_sync(kAllLanes, mine.p, other);
        const A d = __shfl_sync(kAllLanes, mine.d, other);
        if (first + other >= call.queries) continue;
        const T* q = static_cast<const T*>(call.q) + call.of_q.at(n, h, first + other);
        const T* dy = static_cast<const T*>(call.dy) + call.of_y.at(n, h, first + other);
        for (int64_t c = 0, j = lane; j < call.head; ++c, j += kWarp)
          of_k[c] += d * load_as_compute(q[j]);
        for (int64_t c = 0, j = lane; j < call.v_head; ++c, j += kWarp)
          of_v[c] += p * load_as_compute(dy[j]);
      }
    }
  }
  T* dk = static_cast<T*>(call.dk) + call.of_k.at(n, kv, key);
  T* dv = static_cast<T*>(call.dv) + call.of_v.at(n, kv, key);
  for (int64_t c = 0, j = lane; j < call.head; ++c, j += kWarp)
    dk[j] = store_from_compute<T>(of_k[c] * static_cast<A>(call.scale));
  for (int64_t c = 0, j = lane; j < call.v_head; ++c, j += kWarp)
    dv[j] = store_from_compute<T>(of_v[c]);
}

// One warp for each row of scores. Each pass reads the scores again.
template <typename T>
__global__ void attention_weights(AttentionCall call, WeightsCall rows) {
  using A = Compute<T>;
  constexpr A kNothing = -std::numeric_limits<A>::infinity();
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= rows.batches * call.q_heads * call.queries) return;
  const Query query = query_of(call, warp);
  const int64_t n = rows.first_batch + query.n, h = query.h, row = query.row;
  const A* scores = static_cast<const A*>(rows.scores) + warp * call.keys;
  T* weights = static_cast<T*>(rows.weights) + warp * call.keys;
  const Keys keys = visible(call, n, row);
  const auto seen = [&](int64_t i) {
    A slope;
    return score_of<T>(call, n, h, row, keys.first + i, scores[keys.first + i], &slope);
  };
  const int64_t count = keys.last > keys.first ? keys.last - keys.first : 0;
  const A largest = count > 0 ? warp_max<A>(count, seen) : kNothing;
  const A base = largest == kNothing ? A(0) : largest;
  const A sum = count > 0
                    ? warp_tree_sum<A>(count, [&](int64_t i) { return vmath::exp(seen(i) - base); })
                    : A(0);
  const bool empty = sum == A(0);
  for (int64_t key = threadIdx.x % kWarp; key < call.keys; key += kWarp) {
    const bool is_seen = !empty && key >= keys.first && key < keys.last;
    weights[key] =
        store_from_compute<T>(is_seen ? vmath::exp(seen(key - keys.first) - base) / sum : A(0));
  }
  if (threadIdx.x % kWarp == 0 && call.log_sums) {
    static_cast<A*>(call.log_sums)[(n * call.q_heads + h) * call.queries + row] =
        empty ? -kNothing : largest + std::log(sum);
  }
}

template <typename T>
__global__ void attention_weights_grad(AttentionCall call, WeightsCall rows) {
  using A = Compute<T>;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= rows.batches * call.q_heads * call.queries) return;
  const Query query = query_of(call, warp);
  const int64_t n = rows.first_batch + query.n, h = query.h, row = query.row;
  const int64_t at = call.of_y.at(n, h, row);
  const T *dy = static_cast<const T*>(call.dy) + at, *y = static_cast<const T*>(call.y) + at;
  const A mean = warp_tree_sum<A>(
      call.v_head, [&](int64_t i) { return load_as_compute(dy[i]) * load_as_compute(y[i]); });
  const A log_sum =
      static_cast<const A*>(call.log_sums)[(n * call.q_heads + h) * call.queries + row];
  const A* scores = static_cast<const A*>(rows.scores) + warp * call.keys;
  const A* weight_grads = static_cast<const A*>(rows.weight_grads) + warp * call.keys;
  T* weights = static_cast<T*>(rows.weights) + warp * call.keys;
  T* score_grads = static_cast<T*>(rows.score_grads) + warp * call.keys;
  const Keys keys = visible(call, n, row);
  for (int64_t key = threadIdx.x % kWarp; key < call.keys; key += kWarp) {
    A p(0), d(0);
    if (key >= keys.first && key < keys.last) {
      A slope;
      p = vmath::exp(score_of<T>(call, n, h, row, key, scores[key], &slope) - log_sum);
      d = p * (weight_grads[key] - mean) * slope;
    }
    weights[key] = store_from_compute<T>(p);
    score_grads[key] = store_from_compute<T>(d);
  }
}

}  // namespace

cudaError_t launch_attention_weights(const AttentionCall& call, const WeightsCall& rows,
                                     DType dtype, cudaStream_t stream) {
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&attention_weights<decltype(zero)>>(
        one_warp_each(rows.batches * call.q_heads * call.queries), stream, call, rows);
  });
}

cudaError_t launch_attention_weights_grad(const AttentionCall& call, const WeightsCall& rows,
                                          DType dtype, cudaStream_t stream) {
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&attention_weights_grad<decltype(zero)>>(
        one_warp_each(rows.batches * call.q_heads * call.queries), stream, call, rows);
  });
}

cudaError_t launch_attention(const AttentionCall& call, DType dtype, cudaStream_t stream) {
  const int64_t rows = call.batch * call.q_heads * call.queries;
  if (rows == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&attend<decltype(zero)>>(one_warp_each(rows), stream, call);
  });
}

cudaError_t launch_attention_grad(const AttentionCall& call, DType dtype, cudaStream_t stream) {
  const int64_t rows = call.batch * call.q_heads * call.queries;
  const int64_t keys = call.batch * call.kv_heads * call.keys;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    cudaError_t error = cudaSuccess;
    if (rows > 0) error = launch<&attend_back_queries<T>>(one_warp_each(rows), stream, call);
    if (error == cudaSuccess && keys > 0)
      error = launch<&attend_back_keys<T>>(one_warp_each(keys), stream, call);
    return error;
  });
}

}  // namespace leat::cuda
