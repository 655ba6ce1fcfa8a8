// Runs CUDA kernels on the CPU: the compiler includes this file before each .cu file, which it then
// compiles as C++. A grid is a loop over blocks. The threads of a block are fibers of one thread of
// the host: a fiber runs threads of the block one after the other, and a thread that waits at a
// barrier keeps its fiber, so that a kernel without barriers needs one.
//
// It finds accesses outside of buffers and of shared memory (by AddressSanitizer and by the guard
// pages of fake_runtime.h), reads of memory never written (it holds NaNs), barriers that not
// all threads reach, and warp operations whose mask is wrong. A missing barrier gives other results
// when the threads of a block start in the reverse order: see set_reverse(). It cannot find races
// within a warp between barriers, wrong memory orders, or misaligned vector accesses.
//
// Threads: one at a time runs kernels.
#pragma once

#define LEAT_CUDA_EMULATED

#include <cuda_runtime_api.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

// Shared memory is zeroed once and then keeps what the block before left, as a GPU's does.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#define LEAT_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::emulator::dynamic_shared())

namespace emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

void* dynamic_shared();
void wait_for_block();
void wait_for_warp(unsigned mask);
unsigned lane();
// Gives `value`, of up to 8 bytes, to the lanes in `mask`, and returns that of lane `from`.
uint64_t exchange(unsigned mask, uint64_t value, unsigned from);

// A launch that waits for its turn: the kernel and a copy of its arguments.
using Call = void (*)(void** arguments);
// Runs all threads of all blocks. Memory beyond `shared` bytes of dynamic shared memory is guarded.
void run(dim3 grid, dim3 block, size_t shared, Call kernel, void** arguments);
// From now on the threads of a block start from the last one, and its blocks too.
void set_reverse(bool reverse);

// A kernel as the fake runtime knows it.
struct KernelEntry {
  Call call = nullptr;
  const size_t* argument_bytes = nullptr;
  size_t arguments = 0;
};
void add_kernel(const void* function, KernelEntry entry);
// The entry of a kernel; null if no launch of it was compiled.
const KernelEntry* find_kernel(const void* function);
// The kernel that became known last; null if there is none.
const void* last_listed();

template <auto kernel, typename... P>
void call_kernel(void (*)(P...), void** arguments) {
  [&]<size_t... I>(std::index_sequence<I...>) { kernel(*static_cast<P*>(arguments[I])...); }
  (std::index_sequence_for<P...>());
}
template <typename... P>
const std::array<size_t, sizeof...(P)>& argument_bytes(void (*)(P...)) {
  static const std::array<size_t, sizeof...(P)> bytes = {sizeof(P)...};
  return bytes;
}
template <auto kernel>
void list_kernel() {
  static const bool listed = [] {
    const auto& bytes = argument_bytes(kernel);
    add_kernel(reinterpret_cast<const void*>(kernel),
               {[](void** arguments) { call_kernel<kernel>(kernel, arguments); }, bytes.data(),
                bytes.size()});
    return true;
  }();
  (void)listed;
}

template <typename T>
T exchange_as(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, from);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulator

// The thread that runs, and its place in the launch.
extern emulator::Index threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

inline void __syncthreads() { emulator::wait_for_block(); }
inline void __syncwarp(unsigned mask = ~0u) { emulator::wait_for_warp(mask); }
template <typename T>
T __shfl_sync(unsigned mask, T value, int from) {
  return emulator::exchange_as(mask, value, static_cast<unsigned>(from) % 32);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int other) {
  return emulator::exchange_as(mask, value, emulator::lane() ^ static_cast<unsigned>(other));
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  const unsigned from = emulator::lane() + by;
  return emulator::exchange_as(mask, value, from < 32 ? from : emulator::lane());
}
