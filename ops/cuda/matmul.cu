#include <cmath>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/matmul.h"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;
using elementwise::wrap_add;
using elementwise::wrap_mul;

// A block computes a tile of kTile x kTile results with kSide x kSide threads, of kEach x kEach
// results each; kDepth of k at a time are in shared memory.
constexpr int kTile = 64, kSide = 16, kEach = kTile / kSide, kDepth = 16;

template <typename C>
__device__ inline C multiply_add(C a, C b, C sum) {
  if constexpr (std::is_same_v<C, float>)
    return fmaf(a, b, sum);
  else if constexpr (std::is_same_v<C, double>)
    return fma(a, b, sum);
  else
    return wrap_add(sum, wrap_mul(a, b));
}

template <typename T>
__global__ void __launch_bounds__(kSide* kSide) product(ProductCall call) {
  using C = Compute<T>;
  __shared__ C tile_a[kDepth][kTile + 1];
  __shared__ C tile_b[kDepth][kTile + 1];
  const int64_t item = call.first_item + blockIdx.z;
  const T* a = static_cast<const T*>(call.a) + call.offsets[item];
  const T* b = static_cast<const T*>(call.b) + call.offsets[call.items + item];
  const int64_t row0 = int64_t{blockIdx.y} * kTile, column0 = int64_t{blockIdx.x} * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int tx = thread % kSide, ty = thread / kSide;
  C sums[kEach][kEach] = {};
  for (int64_t k0 = 0; k0 < call.k; k0 += kDepth) {
    for (int i = thread; i < kDepth * kTile; i += kSide * kSide) {
      // Neighbouring threads read neighbouring elements of the memory.
      const int ka = call.trans_a ? i / kTile : i % kDepth,
                ra = call.trans_a ? i % kTile : i / kDepth;
      const int kb = call.trans_b ? i % kDepth : i / kTile,
                cb = call.trans_b ? i / kDepth : i % kTile;
      const bool in_a = row0 + ra < call.m && k0 + ka < call.k;
      const bool in_b = column0 + cb < call.n && k0 + kb < call.k;
      const int64_t at_a =
          call.trans_a ? (k0 + ka) * call.lda + row0 + ra : (row0 + ra) * call.lda + k0 + ka;
      const int64_t at_b =
          call.trans_b ? (column0 + cb) * call.ldb + k0 + kb : (k0 + kb) * call.ldb + column0 + cb;
      tile_a[ka][ra] = in_a ? load(a[at_a]) : C(0);
      tile_b[kb][cb] = in_b ? load(b[at_b]) : C(0);
    }
    __syncthreads();
    const int depth = static_cast<int>(call.k - k0 < kDepth ? call.k - k0 : kDepth);
    for (int k = 0; k < depth; ++k) {
      C left[kEach], right[kEach];
      for (int i = 0; i < kEach; ++i) {
        left[i] = tile_a[k][ty + i * kSide];
        right[i] = tile_b[k][tx + i * kSide];
      }
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j) sums[i][j] = multiply_add(left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
  T* y = static_cast<T*>(call.y) + item * call.m * call.n;
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row >= call.m || column >= call.n) continue;
      C value = sums[i][j];
      if (call.alpha != 1) value = static_cast<C>(call.alpha * static_cast<double>(value));
      if (call.c) {
        C add = load(static_cast<const T*>(call.c)[row * call.c_row + column * call.c_column]);
        if (call.beta != 1) add = static_cast<C>(call.beta * static_cast<double>(add));
        value = wrap_add(value, add);
      }
      if (call.relu) value = !(value <= C(0)) ? value : C(0);
      y[row * call.n + column] = store<T>(value);
    }
  }
}

}  // namespace

cudaError_t launch_product(const ProductCall& call, DType dtype, cudaStream_t stream) {
  if (call.m * call.n * call.items == 0) return cudaSuccess;
  const auto blocks = [](int64_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  const auto run = [&](auto zero) {
    // A grid has up to 65535 blocks along y and z; the offsets of later items follow.
    constexpr int64_t kMost = 65535;
    if (blocks(call.m) > kMost) return cudaErrorInvalidConfiguration;
    for (int64_t first = 0; first < call.items; first += kMost) {
      ProductCall part = call;
      part.first_item = first;
      const int64_t count = call.items - first < kMost ? call.items - first : kMost;
      const LaunchShape shape{dim3(blocks(call.n), blocks(call.m), static_cast<unsigned>(count)),
                              dim3(kSide * kSide)};
      if (const auto error = launch<&product<decltype(zero)>>(shape, stream, part)) return error;
    }
    return cudaSuccess;
  };
  switch (dtype) {
    case DType::i32:
      return run(int32_t{});
    case DType::i64:
      return run(int64_t{});
    case DType::u32:
      return run(uint32_t{});
    case DType::u64:
      return run(uint64_t{});
    default:
      return dispatch_floats(dtype, run);
  }
}

}  // namespace leat::cuda
