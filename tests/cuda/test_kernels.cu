#include "devices/cuda/launch.h"
#include "tests/cuda/test_kernels.h"

namespace leat {
namespace {

using cuda::launch;

__global__ void turn(const float* x, float* y, int n, bool with_barrier) {
  LEAT_DYNAMIC_SHARED(float, all);
  const int i = static_cast<int>(threadIdx.x);
  all[i] = x[i];
  if (with_barrier) __syncthreads();
  y[i] = all[n - 1 - i];
}

__global__ void warp_sum(const float* x, float* y) {
  float sum = x[threadIdx.x];
  for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
  y[threadIdx.x] = sum;
}

__global__ void increment(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += 1;
}

__global__ void past_the_end(float* x, int n) {
  if (threadIdx.x == 0) x[n] = 1;
}

__global__ void half_a_barrier(float* x) {
  if (threadIdx.x % 2 == 0) __syncthreads();
  x[threadIdx.x] = 0;
}

__global__ void wrong_mask(float* x) {
  if (threadIdx.x >= 16) return;
  x[threadIdx.x] = __shfl_sync(~0u, 1.0f, 0);
}

// The emulator has no atomics, so that a kernel with them does not build. Its threads run one after
// the other, and this one is what a GPU does in one order of many.
float atomicAdd(float* at, float value) {
  const float old = *at;
  *at += value;
  return old;
}

__global__ void sum_by_atomics(const float* x, float* sum) {
  atomicAdd(sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
}

__global__ void past_shared(float* x, int n) {
  LEAT_DYNAMIC_SHARED(float, all);
  all[n + threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = all[n + threadIdx.x];
}

__global__ void past_static_shared(float* x, int n) {
  __shared__ float all[32];
  all[n + threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = all[n + threadIdx.x];
}

__global__ void unset_shared(float* x) {
  LEAT_DYNAMIC_SHARED(float, all);
  x[threadIdx.x] = all[threadIdx.x];
}

// Half warps that take part by masks of their own, in both directions.
__global__ void half_warp_moves(float* x) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned mask = lane < 16 ? 0xffffu : 0xffff0000u;
  const float next = __shfl_down_sync(mask, x[threadIdx.x], lane % 16 == 15 ? 0 : 1);
  __syncwarp(mask);
  x[threadIdx.x] = next;
}

__global__ void places(int* x) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  x[at] = static_cast<int>(at);
}

}  // namespace

cudaError_t launch_turn(const float* x, float* y, int n, bool with_barrier, cudaStream_t stream) {
  const size_t shared = static_cast<size_t>(n) * sizeof(float);
  return launch<&turn>({dim3(1), dim3(static_cast<unsigned>(n)), shared}, stream, x, y, n,
                       with_barrier);
}
cudaError_t launch_warp_sum(const float* x, float* y, cudaStream_t stream) {
  return launch<&warp_sum>({dim3(1), dim3(32)}, stream, x, y);
}
cudaError_t launch_increment(float* x, int n, cudaStream_t stream) {
  return launch<&increment>(cuda::one_thread_each(n), stream, x, n);
}
cudaError_t launch_past_the_end(float* x, int n, cudaStream_t stream) {
  return launch<&past_the_end>({dim3(1), dim3(32)}, stream, x, n);
}
cudaError_t launch_half_a_barrier(float* x, cudaStream_t stream) {
  return launch<&half_a_barrier>({dim3(1), dim3(32)}, stream, x);
}
cudaError_t launch_wrong_mask(float* x, cudaStream_t stream) {
  return launch<&wrong_mask>({dim3(1), dim3(32)}, stream, x);
}

cudaError_t launch_sum_by_atomics(const float* x, float* sum, int n, cudaStream_t stream) {
  return launch<&sum_by_atomics>({dim3(static_cast<unsigned>(n / 32)), dim3(32)}, stream, x, sum);
}
cudaError_t launch_past_shared(float* x, int n, cudaStream_t stream) {
  return launch<&past_shared>({dim3(1), dim3(1), static_cast<size_t>(n) * sizeof(float)}, stream, x,
                              n);
}
cudaError_t launch_past_static_shared(float* x, int n, cudaStream_t stream) {
  return launch<&past_static_shared>({dim3(1), dim3(1)}, stream, x, n);
}
cudaError_t launch_unset_shared(float* x, cudaStream_t stream) {
  return launch<&unset_shared>({dim3(1), dim3(32), 32 * sizeof(float)}, stream, x);
}
cudaError_t launch_half_warp_moves(float* x, cudaStream_t stream) {
  return launch<&half_warp_moves>({dim3(1), dim3(64)}, stream, x);
}
cudaError_t launch_places(int* x, dim3 grid, dim3 block, cudaStream_t stream) {
  return launch<&places>({grid, block}, stream, x);
}

}  // namespace leat
