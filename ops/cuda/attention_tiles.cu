#include <algorithm>
#include <cmath>
#include <limits>

#include "devices/cuda/launch.h"
#include "ops/cuda/attention_scores.cuh"
#include "ops/cuda/attention_tiles.h"
#include "ops/cuda/tensor_core.cuh"
#include "ops/cuda/vector.cuh"

namespace leat::cuda {
namespace {

constexpr int kOwnRows = 64;            // queries or keys of a block: 16 for each warp
constexpr unsigned kTileThreads = 128;  // 4 warps
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// A block keeps 64 rows of its own, and meets the other side's rows in tiles of so many. Columns
// beyond those of a head are zeros.
template <int columns>
struct Tile {
  static constexpr int rows = columns <= 64 ? 64 : 32;
  // One element more than a multiple of 128 bytes would bring 8 rows of a column to one bank.
  static constexpr int pitch = columns + 8;
  static constexpr int elements = rows * pitch;
  // Blocks of a multiprocessor: as many as have their sums in registers.
  static constexpr int blocks = columns <= 64 ? 4 : 2, blocks_back = columns <= 64 ? 3 : 2;
};

// The memory of a block: two tiles of two matrices each. A block's own rows pass through it, too.
template <typename T, int columns>
struct Tiles {
  alignas(16) T of[2][2][Tile<columns>::elements];
  __device__ T* whole() { return &of[0][0][0]; }
};

// Begins to copy rows [first, first + count) of a matrix of `height` rows.
template <typename T, int columns>
__device__ inline void copy_rows(T* tile, const T* matrix, int64_t step, int64_t first, int count,
                                 int64_t height, int64_t width) {
  constexpr int kParts = columns / 8;  // of 16 bytes
  for (int i = static_cast<int>(threadIdx.x); i < count * kParts; i += kTileThreads) {
    const int row = i / kParts, column = i % kParts * 8;
    const bool there = first + row < height && column < width;
    copy_async(tile + row * Tile<columns>::pitch + column,
               there ? matrix + (first + row) * step + column : matrix, there);
  }
}

// The left operands of a warp's 16 rows, for each 16 columns.
template <typename T, int columns>
__device__ inline void load_own_rows(uint32_t (&words)[columns / 16][4], const T* tile) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int row = static_cast<int>(threadIdx.x / kWarp) * 16 + lane % 16;
#pragma unroll
  for (int c = 0; c < columns / 16; ++c)
    load_four<T, false>(words[c], tile + row * Tile<columns>::pitch + c * 16 + lane / 16 * 8);
}

// Takes a block's own rows, by way of its tiles. All threads call it.
template <typename T, int columns>
__device__ inline void take_own_rows(uint32_t (&words)[columns / 16][4], Tiles<T, columns>& tiles,
                                     const T* matrix, int64_t step, int64_t first, int64_t height,
                                     int64_t width) {
  copy_rows<T, columns>(tiles.whole(), matrix, step, first, kOwnRows, height, width);
  end_copies();
  await_copies<0>();
  __syncthreads();
  load_own_rows<T, columns>(words, tiles.whole());
  __syncthreads();
}

// sums[own, other] += own rows * the other side's rows, transposed.
template <typename T, int columns>
__device__ inline void multiply_rows(float (&sums)[Tile<columns>::rows / 8][4],
                                     const uint32_t (&own)[columns / 16][4], const T* other) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const T* at = other + (lane / 16 * 8 + lane % 8) * Tile<columns>::pitch + lane / 8 % 2 * 8;
#pragma unroll
  for (int c = 0; c < columns / 16; ++c) {
#pragma unroll
    for (int r = 0; r < Tile<columns>::rows / 16; ++r) {
      uint32_t words[4];
      load_four<T, false>(words, at + r * 16 * Tile<columns>::pitch + c * 16);
      multiply_add<T>(sums[2 * r], own[c], words[0], words[1]);
      multiply_add<T>(sums[2 * r + 1], own[c], words[2], words[3]);
    }
  }
}

// sums[own, columns] += weights[own, other] * the other side's rows.
template <typename T, int columns>
__device__ inline void multiply_weights(float (&sums)[columns / 8][4],
                                        const float (&weights)[Tile<columns>::rows / 8][4],
                                        const T* other) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const T* at = other + lane % 16 * Tile<columns>::pitch + lane / 16 * 8;
#pragma unroll
  for (int r = 0; r < Tile<columns>::rows / 16; ++r) {
    // The sums of one product are as a left operand of the next.
    const float(&first)[4] = weights[2 * r], (&second)[4] = weights[2 * r + 1];
    const uint32_t left[4] = {
        two_elements<T>(first[0], first[1]), two_elements<T>(first[2], first[3]),
        two_elements<T>(second[0], second[1]), two_elements<T>(second[2], second[3])};
#pragma unroll
    for (int c = 0; c < columns / 16; ++c) {
      uint32_t words[4];
      load_four<T, true>(words, at + r * 16 * Tile<columns>::pitch + c * 16);
      multiply_add<T>(sums[2 * c], left, words[0], words[1]);
      multiply_add<T>(sums[2 * c + 1], left, words[2], words[3]);
    }
  }
}

// Writes a warp's 16 rows of results, each row times its factor.
template <typename T, int columns>
__device__ inline void store_rows(T* matrix, int64_t step, int64_t first, int64_t height,
                                  int64_t width, const float (&sums)[columns / 8][4],
                                  const float (&factors)[2]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + lane / 4 + 8 * half;
    if (row >= height) continue;
    T* to = matrix + row * step;
#pragma unroll
    for (int c = 0; c < columns / 8; ++c) {
      const int column = c * 8 + lane % 4 * 2;
      if (column >= width) continue;
      const uint32_t word =
          two_elements<T>(sums[c][2 * half] * factors[half], sums[c][2 * half + 1] * factors[half]);
      std::memcpy(to + column, &word, sizeof word);
    }
  }
}

// Which rows and heads a block has.
struct Place {
  int64_t n, h, first;
};
// The blocks of the last rows come first: behind a causal mask they have most to do.
__device__ inline Place place_of(int64_t block, int64_t heads, int64_t rows) {
  const int64_t tiles = (rows + kOwnRows - 1) / kOwnRows;
  return {block / tiles / heads, block / tiles % heads,
          (tiles - 1 - block % tiles) * int64_t{kOwnRows}};
}

// A number in units of log2(e). The lowest ones, with which masks hide keys, stay finite.
__device__ inline float in_log2(float x) {
  return fmaxf(x * kLog2E, -std::numeric_limits<float>::max());
}

// Scores in units of log2(e), for powers of two. A `plain` call has neither a mask nor a cap: all
// that is left is a factor.
template <typename T, bool plain>
struct Scores {
  const AttentionCall& call;
  const Place at;
  const float factor;

  __device__ Scores(const AttentionCall& attention, const Place& place)
      : call(attention),
        at(place),
        factor(plain ? static_cast<float>(attention.scale) * kLog2E
                     : static_cast<float>(attention.scale)) {}
  // The score of a product, and the slope of its cap; -infinity where the mask hides the key. A
  // call that is not plain needs a query that sees the key.
  __device__ float of(float product, int64_t row, int64_t key, float* slope) const {
    *slope = 1;
    if constexpr (plain) return product * factor;
    const float score = score_of<T>(call, at.n, at.h, row, key, product * factor, slope);
    return score == kNothing ? kNothing : in_log2(score);
  }
};

// The keys that a query sees; none if there is no such query.
struct Seen {
  int first, last;
};
__device__ inline Seen seen_by(const AttentionCall& call, int64_t n, int64_t row) {
  if (row >= call.queries) return {0, 0};
  const Keys keys = visible(call, n, row);
  return {static_cast<int>(keys.first), static_cast<int>(keys.last)};
}

// The tiles of keys that some query of [first, last] sees, and those keys that all of them see.
struct KeyRange {
  int64_t begin, end;
  Keys by_all;
};
__device__ inline KeyRange range_of(const AttentionCall& call, int64_t n, int64_t first, int tile) {
  const int64_t last = first + kOwnRows <= call.queries ? first + kOwnRows - 1 : call.queries - 1;
  const Keys low = visible(call, n, first), high = visible(call, n, last);
  return {low.first / tile * tile, high.last, {high.first, low.last}};
}

// 64 queries of a head: 16 for each warp, of which a lane has parts of two; and the keys and values
// that some of them see, which come tile by tile.
template <typename T, int columns>
struct QueryBlock {
  const AttentionCall& call;
  const Place at;
  const KeyRange range;
  const int64_t kv;         // the head of K and V
  const int64_t first_row;  // of the warp

  __device__ QueryBlock(const AttentionCall& attention)
      : call(attention),
        at(place_of(blockIdx.x, attention.q_heads, attention.queries)),
        range(range_of(attention, at.n, at.first, Tile<columns>::rows)),
        kv(at.h / (attention.q_heads / attention.kv_heads)),
        first_row(at.first + threadIdx.x / kWarp * 16) {}

  __device__ void take(uint32_t (&words)[columns / 16][4], Tiles<T, columns>& tiles,
                       const void* base, const HeadSteps& steps, int64_t width) const {
    take_own_rows<T, columns>(words, tiles, static_cast<const T*>(base) + steps.at(at.n, at.h, 0),
                              steps.row, at.first, call.queries, width);
  }
  // Begins to copy a tile of keys and values. Those that no query of the block sees are zeros,
  // whatever they are.
  __device__ void copy_keys(Tiles<T, columns>& tiles, int64_t key, int stage) const {
    constexpr int kRows = Tile<columns>::rows;
    copy_rows<T, columns>(tiles.of[stage][0],
                          static_cast<const T*>(call.k) + call.of_k.at(at.n, kv, 0), call.of_k.row,
                          key, kRows, range.end, call.head);
    copy_rows<T, columns>(tiles.of[stage][1],
                          static_cast<const T*>(call.v) + call.of_v.at(at.n, kv, 0), call.of_v.row,
                          key, kRows, range.end, call.v_head);
  }
  // True if all queries of the block see all keys of a tile.
  __device__ bool sees_all(int64_t key) const {
    return key >= range.by_all.first && key + Tile<columns>::rows <= range.by_all.last &&
           at.first + kOwnRows <= call.queries;
  }
};

template <typename T, int columns, bool plain>
__global__ void __launch_bounds__(kTileThreads, Tile<columns>::blocks)
    attend_tiles(AttentionCall call) {
  constexpr int kRows = Tile<columns>::rows;
  __shared__ Tiles<T, columns> tiles;
  const QueryBlock<T, columns> block(call);
  const Place& at = block.at;
  const KeyRange& range = block.range;
  const int64_t first_row = block.first_row;
  const int lane = static_cast<int>(threadIdx.x % kWarp);

  uint32_t queries[columns / 16][4];
  block.take(queries, tiles, call.q, call.of_q, call.head);

  Seen seen[2];
  for (int half = 0; half < 2; ++half)
    seen[half] = seen_by(call, at.n, first_row + lane / 4 + 8 * half);
  const Scores<T, plain> measure(call, at);
  float sums[columns / 8][4] = {}, largest[2] = {kNothing, kNothing}, total[2] = {0, 0};
  if (range.begin < range.end) block.copy_keys(tiles, range.begin, 0);
  end_copies();
  int stage = 0;
  for (int64_t key = range.begin; key < range.end; key += kRows, stage ^= 1) {
    if (key + kRows < range.end) block.copy_keys(tiles, key + kRows, stage ^ 1);
    end_copies();
    await_copies<1>();
    __syncthreads();
    float scores[kRows / 8][4] = {};
    multiply_rows<T, columns>(scores, queries, tiles.of[stage][0]);
    const bool whole = block.sees_all(key);
    float best[2] = {largest[0], largest[1]};
#pragma unroll
    for (int c = 0; c < kRows / 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int other = static_cast<int>(key) + c * 8 + lane % 4 * 2 + e % 2;
        const bool sees = whole || (other >= seen[e / 2].first && other < seen[e / 2].last);
        float slope, x = kNothing;
        if (plain || sees)
          x = measure.of(scores[c][e], first_row + lane / 4 + 8 * (e / 2), other, &slope);
        scores[c][e] = sees ? x : kNothing;
        best[e / 2] = fmaxf(best[e / 2], scores[c][e]);
      }
    }
    float base[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      best[half] = fmaxf(best[half], __shfl_xor_sync(kAllLanes, best[half], 1));
      best[half] = fmaxf(best[half], __shfl_xor_sync(kAllLanes, best[half], 2));
      base[half] = best[half] == kNothing ? 0.0f : best[half];
      const float factor = power_of_two(largest[half] - base[half]);
      largest[half] = best[half];
      total[half] *= factor;
#pragma unroll
      for (int c = 0; c < columns / 8; ++c) {
        sums[c][2 * half] *= factor;
        sums[c][2 * half + 1] *= factor;
      }
    }
#pragma unroll
    for (int c = 0; c < kRows / 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[c][e] = power_of_two(scores[c][e] - base[e / 2]);
        total[e / 2] += scores[c][e];
      }
    }
    multiply_weights<T, columns>(sums, scores, tiles.of[stage][1]);
    __syncthreads();
  }
  await_copies<0>();

  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] += __shfl_xor_sync(kAllLanes, total[half], 1);
    total[half] += __shfl_xor_sync(kAllLanes, total[half], 2);
    // A query that sees no key has zeros.
    const bool empty = total[half] == 0;
    factors[half] = empty ? 0.0f : 1 / total[half];
    const int64_t row = first_row + lane / 4 + 8 * half;
    if (call.log_sums && lane % 4 == 0 && row < call.queries) {
      static_cast<float*>(call.log_sums)[(at.n * call.q_heads + at.h) * call.queries + row] =
          empty ? -kNothing : largest[half] * kLn2 + std::log(total[half]);
    }
  }
  store_rows<T, columns>(static_cast<T*>(call.y) + call.of_y.at(at.n, at.h, 0), call.of_y.row,
                         first_row, call.queries, call.v_head, sums, factors);
}

// The gradient reads these of each query.
struct QueryFacts {
  float log_sum, mean;  // log_sum in units of log2(e)
};

// The sums of dY * Y, one warp for each row.
template <typename T>
__global__ void attention_means(AttentionCall call, float* means) {
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (warp >= call.batch * call.q_heads * call.queries) return;
  const int64_t row = warp % call.queries, h = warp / call.queries % call.q_heads;
  const int64_t at = call.of_y.at(warp / call.queries / call.q_heads, h, row);
  const T *dy = static_cast<const T*>(call.dy) + at, *y = static_cast<const T*>(call.y) + at;
  const float mean = warp_tree_sum<float>(
      call.v_head, [&](int64_t i) { return load_as_compute(dy[i]) * load_as_compute(y[i]); });
  if (threadIdx.x % kWarp == 0) means[warp] = mean;
}

__device__ inline QueryFacts facts_of(const AttentionCall& call, const float* means, int64_t n,
                                      int64_t h, int64_t row) {
  if (row >= call.queries) return {-kNothing, 0};
  const int64_t at = (n * call.q_heads + h) * call.queries + row;
  return {in_log2(static_cast<const float*>(call.log_sums)[at]), means[at]};
}

// dQ of 64 queries of a head.
template <typename T, int columns, bool plain>
__global__ void __launch_bounds__(kTileThreads, Tile<columns>::blocks_back)
    attend_back_queries_tiles(AttentionCall call, const float* means) {
  constexpr int kRows = Tile<columns>::rows;
  __shared__ Tiles<T, columns> tiles;
  const QueryBlock<T, columns> block(call);
  const Place& at = block.at;
  const KeyRange& range = block.range;
  const int64_t first_row = block.first_row;
  const int lane = static_cast<int>(threadIdx.x % kWarp);

  uint32_t queries[columns / 16][4], grads[columns / 16][4];
  block.take(queries, tiles, call.q, call.of_q, call.head);
  block.take(grads, tiles, call.dy, call.of_y, call.v_head);

  Seen seen[2];
  QueryFacts facts[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first_row + lane / 4 + 8 * half;
    seen[half] = seen_by(call, at.n, row);
    facts[half] = facts_of(call, means, at.n, at.h, row);
  }
  const Scores<T, plain> measure(call, at);
  float sums[columns / 8][4] = {};
  if (range.begin < range.end) block.copy_keys(tiles, range.begin, 0);
  end_copies();
  int stage = 0;
  for (int64_t key = range.begin; key < range.end; key += kRows, stage ^= 1) {
    if (key + kRows < range.end) block.copy_keys(tiles, key + kRows, stage ^ 1);
    end_copies();
    await_copies<1>();
    __syncthreads();
    float scores[kRows / 8][4] = {}, weight_grads[kRows / 8][4] = {};
    multiply_rows<T, columns>(scores, queries, tiles.of[stage][0]);
    multiply_rows<T, columns>(weight_grads, grads, tiles.of[stage][1]);
    const bool whole = block.sees_all(key);
#pragma unroll
    for (int c = 0; c < kRows / 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int other = static_cast<int>(key) + c * 8 + lane % 4 * 2 + e % 2;
        const bool sees = whole || (other >= seen[e / 2].first && other < seen[e / 2].last);
        float slope = 1, x = kNothing;
        if (plain || sees)
          x = measure.of(scores[c][e], first_row + lane / 4 + 8 * (e / 2), other, &slope);
        const float d = power_of_two(x - facts[e / 2].log_sum) *
                        (weight_grads[c][e] - facts[e / 2].mean) * slope;
        scores[c][e] = sees ? d : 0.0f;
      }
    }
    multiply_weights<T, columns>(sums, scores, tiles.of[stage][0]);
    __syncthreads();
  }
  await_copies<0>();
  const auto scale = static_cast<float>(call.scale);
  store_rows<T, columns>(static_cast<T*>(call.dq) + call.of_q.at(at.n, at.h, 0), call.of_q.row,
                         first_row, call.queries, call.head, sums, {scale, scale});
}

// dK and dV of 64 keys of a head, over the heads and queries that meet them, in their order.
template <typename T, int columns, bool plain>
__global__ void __launch_bounds__(kTileThreads)
    attend_back_keys_tiles(AttentionCall call, const float* means) {
  constexpr int kRows = Tile<columns>::rows;
  __shared__ Tiles<T, columns> tiles;
  __shared__ QueryFacts all_facts[2][kRows];
  __shared__ Seen all_seen[2][kRows];
  const Place own = place_of(blockIdx.x, call.kv_heads, call.keys);
  const int64_t group = call.q_heads / call.kv_heads;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t first_row = own.first + threadIdx.x / kWarp * 16;

  uint32_t keys[columns / 16][4], values[columns / 16][4];
  take_own_rows<T, columns>(keys, tiles,
                            static_cast<const T*>(call.k) + call.of_k.at(own.n, own.h, 0),
                            call.of_k.row, own.first, call.keys, call.head);
  take_own_rows<T, columns>(values, tiles,
                            static_cast<const T*>(call.v) + call.of_v.at(own.n, own.h, 0),
                            call.of_v.row, own.first, call.keys, call.v_head);

  // The tiles of queries that see some of the keys, head by head; all threads find the same.
  const auto meets = [&](int64_t query) {
    const int64_t last = query + kRows <= call.queries ? query + kRows - 1 : call.queries - 1;
    return visible(call, own.n, query).first < own.first + kOwnRows &&
           visible(call, own.n, last).last > own.first;
  };
  const auto find = [&](Place& at) {
    for (; at.h < (own.h + 1) * group; ++at.h, at.first = 0) {
      for (; at.first < call.queries; at.first += kRows) {
        if (meets(at.first)) return true;
      }
    }
    return false;
  };
  const auto copy_tile = [&](const Place& at, int stage) {
    copy_rows<T, columns>(tiles.of[stage][0],
                          static_cast<const T*>(call.q) + call.of_q.at(at.n, at.h, 0),
                          call.of_q.row, at.first, kRows, call.queries, call.head);
    copy_rows<T, columns>(tiles.of[stage][1],
                          static_cast<const T*>(call.dy) + call.of_y.at(at.n, at.h, 0),
                          call.of_y.row, at.first, kRows, call.queries, call.v_head);
    if (threadIdx.x < kRows) {
      const int64_t row = at.first + threadIdx.x;
      all_facts[stage][threadIdx.x] = facts_of(call, means, at.n, at.h, row);
      all_seen[stage][threadIdx.x] = seen_by(call, at.n, row);
    }
  };

  float key_sums[columns / 8][4] = {}, value_sums[columns / 8][4] = {};
  Place at{own.n, own.h * group, 0};
  bool more = find(at);
  if (more) copy_tile(at, 0);
  end_copies();
  for (int stage = 0; more; stage ^= 1) {
    const Place now = at;
    at.first += kRows;
    more = find(at);
    if (more) copy_tile(at, stage ^ 1);
    end_copies();
    await_copies<1>();
    __syncthreads();
    float scores[kRows / 8][4] = {}, weight_grads[kRows / 8][4] = {};
    multiply_rows<T, columns>(scores, keys, tiles.of[stage][0]);
    multiply_rows<T, columns>(weight_grads, values, tiles.of[stage][1]);
    const Scores<T, plain> measure(call, now);
    const bool whole = now.first + kRows <= call.queries &&
                       visible(call, own.n, now.first + kRows - 1).first <= own.first &&
                       visible(call, own.n, now.first).last >= own.first + kOwnRows;
#pragma unroll
    for (int c = 0; c < kRows / 8; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = c * 8 + lane % 4 * 2 + e % 2;
        const int key = static_cast<int>(first_row) + lane / 4 + 8 * (e / 2);
        bool sees = whole;
        if (!whole) {
          const Seen seen = all_seen[stage][query];
          sees = key >= seen.first && key < seen.last;
        }
        const QueryFacts facts = all_facts[stage][query];
        float slope = 1, x = kNothing;
        if (plain || sees) x = measure.of(scores[c][e], now.first + query, key, &slope);
        const float p = power_of_two(x - facts.log_sum);
        const float d = p * (weight_grads[c][e] - facts.mean) * slope;
        scores[c][e] = sees ? p : 0.0f;
        weight_grads[c][e] = sees ? d : 0.0f;
      }
    }
    multiply_weights<T, columns>(value_sums, scores, tiles.of[stage][1]);
    multiply_weights<T, columns>(key_sums, weight_grads, tiles.of[stage][0]);
    __syncthreads();
  }
  await_copies<0>();
  const auto scale = static_cast<float>(call.scale);
  store_rows<T, columns>(static_cast<T*>(call.dk) + call.of_k.at(own.n, own.h, 0), call.of_k.row,
                         first_row, call.keys, call.head, key_sums, {scale, scale});
  store_rows<T, columns>(static_cast<T*>(call.dv) + call.of_v.at(own.n, own.h, 0), call.of_v.row,
                         first_row, call.keys, call.v_head, value_sums, {1, 1});
}

int64_t blocks_of(int64_t heads, int64_t rows) {
  return heads * ((rows + kOwnRows - 1) / kOwnRows);
}
LaunchShape shape_of(int64_t blocks) {
  return {dim3(static_cast<unsigned>(blocks)), dim3(kTileThreads)};
}

// Calls f with a zero of the element type, the columns that the tiles have, and whether the call is
// plain.
template <typename F>
cudaError_t dispatch_tiles(const AttentionCall& call, DType dtype, F f) {
  const bool narrow = std::max(call.head, call.v_head) <= 64;
  const auto with = [&](auto zero, auto plain) {
    return narrow ? f(zero, std::integral_constant<int, 64>{}, plain)
                  : f(zero, std::integral_constant<int, 128>{}, plain);
  };
  const auto of = [&](auto zero) {
    return !call.mask && call.softcap <= 0 ? with(zero, std::true_type{})
                                           : with(zero, std::false_type{});
  };
  return dtype == DType::f16 ? of(Half{}) : of(BFloat16{});
}

}  // namespace

bool attention_tiles_fit(const AttentionCall& call, DType dtype, int capability) {
  const auto in_parts = [](int64_t elements) { return elements % 8 == 0; };
  const auto steps = [&](const HeadSteps& of) {
    return in_parts(of.batch) && in_parts(of.head) && in_parts(of.row);
  };
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return capability >= 80 && (dtype == DType::f16 || dtype == DType::bf16) && call.head > 0 &&
         call.v_head > 0 && std::max(call.head, call.v_head) <= 128 && in_parts(call.head) &&
         in_parts(call.v_head) && steps(call.of_q) && steps(call.of_k) && steps(call.of_v) &&
         steps(call.of_y) && call.batch * call.q_heads * call.queries * call.keys > 0 &&
         call.keys < kMost && blocks_of(call.batch * call.q_heads, call.queries) < kMost &&
         blocks_of(call.batch * call.kv_heads, call.keys) < kMost;
}

bool attention_tiles_take(const AttentionCall& call) {
  for (const void* at : {call.q, call.k, call.v, static_cast<const void*>(call.y), call.dy,
                         static_cast<const void*>(call.dq), static_cast<const void*>(call.dk),
                         static_cast<const void*>(call.dv)}) {
    if (!is_aligned(at)) return false;
  }
  return true;
}

cudaError_t launch_attention_tiles(const AttentionCall& call, DType dtype, cudaStream_t stream) {
  return dispatch_tiles(call, dtype, [&](auto zero, auto columns, auto plain) {
    return launch<&attend_tiles<decltype(zero), decltype(columns)::value, decltype(plain)::value>>(
        shape_of(blocks_of(call.batch * call.q_heads, call.queries)), stream, call);
  });
}

size_t attention_tiles_workspace(const AttentionCall& call) {
  return static_cast<size_t>(call.batch * call.q_heads * call.queries) * sizeof(float);
}

cudaError_t launch_attention_tiles_grad(const AttentionCall& call, DType dtype,
                                        std::byte* workspace, cudaStream_t stream) {
  auto* means = reinterpret_cast<float*>(workspace);
  return dispatch_tiles(call, dtype, [&](auto zero, auto columns, auto plain) {
    using T = decltype(zero);
    constexpr int kColumns = decltype(columns)::value;
    constexpr bool kPlain = decltype(plain)::value;
    cudaError_t error = launch<&attention_means<T>>(
        one_warp_each(call.batch * call.q_heads * call.queries), stream, call, means);
    if (error == cudaSuccess)
      error = launch<&attend_back_queries_tiles<T, kColumns, kPlain>>(
          shape_of(blocks_of(call.batch * call.q_heads, call.queries)), stream, call, means);
    if (error == cudaSuccess)
      error = launch<&attend_back_keys_tiles<T, kColumns, kPlain>>(
          shape_of(blocks_of(call.batch * call.kv_heads, call.keys)), stream, call, means);
    return error;
  });
}

}  // namespace leat::cuda
