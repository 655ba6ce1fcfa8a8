#include "devices/cuda/launch.h"
#include "ops/cuda/element_program.h"
#include "ops/cuda/vector.cuh"

namespace leat::cuda {
namespace {

using elementwise::load;
using elementwise::store;

constexpr int kNeighbours = 8;  // elements of a thread: 16 bytes of the smaller ones

// The place of element i in an input.
template <typename I>
__device__ inline I place_of(const ProgramCall::Input& input, I i) {
  if (input.size == 1) return 0;
  const I divided = input.divisor == 1 ? i : i / static_cast<I>(input.divisor);
  return divided < static_cast<I>(input.size) ? divided : divided % static_cast<I>(input.size);
}

// Elements i, i + 1, ... of an input: neighbours, or the same one.
template <typename T, int n, typename I>
__device__ inline void read_elements(const ProgramCall::Input& input, I i, float (&values)[n]) {
  const T* from = static_cast<const T*>(input.data) + place_of(input, i);
  if (input.divisor == 1 && input.size > 1) {
    const auto some = load_vector<T, n>(from);
#pragma unroll
    for (int j = 0; j < n; ++j) values[j] = load(some.of[j]);
    return;
  }
  const float same = load(*from);
#pragma unroll
  for (int j = 0; j < n; ++j) values[j] = same;
}

template <int n, typename I>
__device__ inline void fetch(const ProgramCall& call, const Source& source, I i,
                             const float (&before)[n],
                             const float (&kept)[ProgramCall::kMostKept][n], float (&values)[n]) {
  switch (source.from) {
    case From::before:
#pragma unroll
      for (int j = 0; j < n; ++j) values[j] = before[j];
      return;
    case From::kept:
#pragma unroll
      for (int j = 0; j < n; ++j) values[j] = kept[source.index][j];
      return;
    case From::input: {
      const ProgramCall::Input& input = call.input[source.index];
      if (input.dtype == DType::f32) return read_elements<float, n>(input, i, values);
      if (input.dtype == DType::bf16) return read_elements<BFloat16, n>(input, i, values);
      return read_elements<Half, n>(input, i, values);
    }
    case From::nowhere:
      return;
  }
}

// Rounds to the dtype of a step, and writes the elements if they are a result.
template <typename T, int n, typename I>
__device__ inline void round_and_write(float (&values)[n], void* to, I i) {
  Vector<T, n> stored;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    stored.of[j] = store<T>(values[j]);
    values[j] = load(stored.of[j]);
  }
  if (to) store_vector(static_cast<T*>(to) + i, stored);
}

template <int n, typename I>
__global__ void __launch_bounds__(kBlockThreads) run_program(ProgramCall call) {
  const I i =
      (static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x)) * n;
  if (i >= static_cast<I>(call.elements)) return;
  float values[n] = {}, kept[ProgramCall::kMostKept][n];
  for (int s = 0; s < call.steps; ++s) {
    const ProgramCall::Step& step = call.step[s];
    float a[n] = {}, b[n] = {};
    fetch(call, step.a, i, values, kept, a);
    fetch(call, step.b, i, values, kept, b);
    elementwise::with_functor(step.op, [&]<typename Functor>(Functor) {
#pragma unroll
      for (int j = 0; j < n; ++j)
        values[j] = elementwise::apply_functor<Functor>(a[j], b[j], step.params);
    });
    void* const to = step.result < 0 ? nullptr : call.output[step.result];
    if (step.dtype == DType::f32)
      round_and_write<float, n>(values, to, i);
    else if (step.dtype == DType::bf16)
      round_and_write<BFloat16, n>(values, to, i);
    else
      round_and_write<Half, n>(values, to, i);
    if (step.kept >= 0) {
#pragma unroll
      for (int j = 0; j < n; ++j) kept[step.kept][j] = values[j];
    }
  }
}

// True if the neighbours of the outputs are neighbours of each input, or one element of it.
bool has_neighbours(const ProgramCall& call) {
  if (call.elements % kNeighbours != 0) return false;
  for (int k = 0; k < call.inputs; ++k) {
    const ProgramCall::Input& input = call.input[k];
    if (input.size == 1 || (input.divisor > 1 && input.divisor % kNeighbours == 0)) continue;
    if (input.divisor > 1 || input.size % kNeighbours != 0 || !is_aligned(input.data)) return false;
  }
  for (int k = 0; k < call.results; ++k) {
    if (!is_aligned(call.output[k])) return false;
  }
  return true;
}

template <int n>
cudaError_t launch_with(const ProgramCall& call, cudaStream_t stream) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const LaunchShape shape = one_thread_each(call.elements / n);
  return call.elements < kMost ? launch<&run_program<n, uint32_t>>(shape, stream, call)
                               : launch<&run_program<n, int64_t>>(shape, stream, call);
}

}  // namespace

cudaError_t launch_program(const ProgramCall& call, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return has_neighbours(call) ? launch_with<kNeighbours>(call, stream)
                              : launch_with<1>(call, stream);
}

}  // namespace leat::cuda
