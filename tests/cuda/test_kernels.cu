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

}  // namespace leat
