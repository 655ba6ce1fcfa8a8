// The one way in which kernels are launched:
//
//   cudaError_t error = launch<&scale<float>>(blocks(n), stream, x, y, n);
//
// The arguments are converted to the types of the kernel's parameters. A build that runs kernels on
// the CPU (tests/cuda/emulator.h) learns of each kernel here.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace leat::cuda {

// The blocks of a launch and the threads of each. Both follow from shapes alone.
struct LaunchShape {
  dim3 grid = 1, block = 1;
  size_t shared = 0;  // bytes of dynamic shared memory
};

// A launch asks for more dynamic shared memory than this with a word to the driver.
inline constexpr size_t kPlainSharedBytes = 48 << 10;

// The dynamic shared memory of a block, as T* name.
#ifndef LEAT_DYNAMIC_SHARED
#define LEAT_DYNAMIC_SHARED(T, name)                           \
  extern __shared__ __align__(16) unsigned char leat_shared[]; \
  T* name = reinterpret_cast<T*>(leat_shared)
#endif

inline constexpr unsigned kBlockThreads = 256;
inline constexpr unsigned kWarp = 32;

// One thread for each of n elements, rounded up to whole blocks. REQUIRES: 1 <= n < 2^39.
inline LaunchShape one_thread_each(int64_t n) {
  return {dim3(static_cast<unsigned>((n + kBlockThreads - 1) / kBlockThreads)),
          dim3(kBlockThreads)};
}
// One warp for each of n results. REQUIRES: 1 <= n < 2^34.
inline LaunchShape one_warp_each(int64_t n) { return one_thread_each(n * kWarp); }

template <typename... P, typename... A>
cudaError_t launch_as(void (*kernel)(P...), const LaunchShape& shape, cudaStream_t stream,
                      A... arguments) {
  static_assert(sizeof...(P) == sizeof...(A));
  std::tuple<P...> converted(static_cast<P>(arguments)...);
  void* addresses[sizeof...(P)];
  [&]<size_t... I>(std::index_sequence<I...>) { ((addresses[I] = &std::get<I>(converted)), ...); }
  (std::index_sequence_for<P...>());
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream;
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), addresses);
}

// Enqueues the kernel. An error is that of the launch, or of work before it.
template <auto kernel, typename... A>
cudaError_t launch(const LaunchShape& shape, cudaStream_t stream, A... arguments) {
#ifdef LEAT_CUDA_EMULATED
  emulator::list_kernel<kernel>();
#endif
  // The largest of all launches: a recording may hold several.
  static std::atomic<size_t> allowed{kPlainSharedBytes};
  if (shape.shared > allowed) {
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(shape.shared));
    if (error != cudaSuccess) return error;
    allowed = shape.shared;
  }
  return launch_as(kernel, shape, stream, arguments...);
}

}  // namespace leat::cuda
