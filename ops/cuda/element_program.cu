#include <tuple>
#include <utility>

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

// --- programs that are known when the code is compiled ---

using elementwise::StepOp;

template <typename T>
constexpr DType dtype_of() {
  if (std::is_same_v<T, BFloat16>) return DType::bf16;
  return std::is_same_v<T, Half> ? DType::f16 : DType::f32;
}

// A step with a result of T; a and b are numbers of values.
template <StepOp op_, typename T, int a_, int b_ = -1>
struct KnownStep {
  using Type = T;
  static constexpr StepOp op = op_;
  static constexpr int a = a_, b = b_;
};

template <typename Inputs, typename Steps>
struct KnownProgram;
template <typename... Input, typename... Step>
struct KnownProgram<std::tuple<Input...>, std::tuple<Step...>> {
  static constexpr int kInputs = sizeof...(Input), kSteps = sizeof...(Step);
  template <int k>
  using InputType = std::tuple_element_t<k, std::tuple<Input...>>;
  template <int s>
  using StepAt = std::tuple_element_t<s, std::tuple<Step...>>;

  static bool is(const ProgramCall& call) {
    const DType inputs[] = {dtype_of<Input>()...};
    const StepOp ops[] = {Step::op...};
    const DType dtypes[] = {dtype_of<typename Step::Type>()...};
    const int a[] = {Step::a...}, b[] = {Step::b...};
    bool same = call.inputs == kInputs && call.steps == kSteps;
    for (int k = 0; same && k < kInputs; ++k) same = call.input[k].dtype == inputs[k];
    for (int s = 0; same && s < kSteps; ++s) {
      const ProgramCall::Step& step = call.step[s];
      same = step.op == ops[s] && step.dtype == dtypes[s] && step.a_number == a[s] &&
             step.b_number == b[s];
    }
    return same;
  }
};

// All values are in registers, and all inputs are read before the first step.
template <typename Program, int n, typename I>
__global__ void __launch_bounds__(kBlockThreads) run_known(ProgramCall call) {
  const I i =
      (static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x)) * n;
  if (i >= static_cast<I>(call.elements)) return;
  float values[Program::kInputs + Program::kSteps][n];
  [&]<int... k>(std::integer_sequence<int, k...>) {
    (read_elements<typename Program::template InputType<k>, n>(call.input[k], i, values[k]), ...);
  }
  (std::make_integer_sequence<int, Program::kInputs>());
  const auto compute = [&]<int s>(std::integral_constant<int, s>) {
    using Step = typename Program::template StepAt<s>;
    float(&result)[n] = values[Program::kInputs + s];
    const float(&a)[n] = values[Step::a], (&b)[n] = values[Step::b < 0 ? 0 : Step::b];
    elementwise::with_functor(Step::op, [&]<typename Functor>(Functor) {
#pragma unroll
      for (int j = 0; j < n; ++j)
        result[j] = elementwise::apply_functor<Functor>(a[j], b[j], call.step[s].params);
    });
    const int to = call.step[s].result;
    round_and_write<typename Step::Type, n>(result, to < 0 ? nullptr : call.output[to], i);
  };
  [&]<int... s>(std::integer_sequence<int, s...>) {
    (compute(std::integral_constant<int, s>()), ...);
  }
  (std::make_integer_sequence<int, Program::kSteps>());
}

template <typename... Input>
using Of = std::tuple<Input...>;
template <typename... Step>
using Do = std::tuple<Step...>;

// Those of residual networks and transformers, for elements of T; sums and conversions of float.
template <typename T>
using KnownPrograms = std::tuple<
    KnownProgram<Of<T, T>, Do<KnownStep<StepOp::add, T, 0, 1>, KnownStep<StepOp::relu, T, 2>>>,
    KnownProgram<Of<T, T, T>,
                 Do<KnownStep<StepOp::add, T, 0, 1>, KnownStep<StepOp::relu_grad, T, 3, 2>>>,
    KnownProgram<Of<T>, Do<KnownStep<StepOp::sigmoid, T, 0>, KnownStep<StepOp::mul, T, 0, 1>>>,
    KnownProgram<Of<T, float>,
                 Do<KnownStep<StepOp::convert, float, 0>, KnownStep<StepOp::add, float, 1, 2>>>,
    KnownProgram<Of<T, float>,
                 Do<KnownStep<StepOp::convert, float, 0>, KnownStep<StepOp::add, float, 2, 1>>>,
    KnownProgram<Of<float, float>,
                 Do<KnownStep<StepOp::add, float, 0, 1>, KnownStep<StepOp::convert, T, 2>>>>;

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

// Launches the kernel of the program among these that the call's is; cudaErrorNotSupported if it is
// none of them.
template <typename Programs>
cudaError_t launch_known(const ProgramCall& call, const LaunchShape& shape, cudaStream_t stream) {
  cudaError_t error = cudaErrorNotSupported;
  const auto attempt = [&]<typename Program>(const Program&) {
    if (error == cudaErrorNotSupported && Program::is(call))
      error = launch<&run_known<Program, kNeighbours, uint32_t>>(shape, stream, call);
  };
  std::apply([&](const auto&... program) { (attempt(program), ...); }, Programs());
  return error;
}

template <int n>
cudaError_t launch_with(const ProgramCall& call, cudaStream_t stream) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const LaunchShape shape = one_thread_each(call.elements / n);
  if (call.elements >= kMost) return launch<&run_program<n, int64_t>>(shape, stream, call);
  if constexpr (n == kNeighbours) {
    cudaError_t error = launch_known<KnownPrograms<BFloat16>>(call, shape, stream);
    if (error == cudaErrorNotSupported)
      error = launch_known<KnownPrograms<Half>>(call, shape, stream);
    if (error != cudaErrorNotSupported) return error;
  }
  return launch<&run_program<n, uint32_t>>(shape, stream, call);
}

}  // namespace

cudaError_t launch_program(const ProgramCall& call, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return has_neighbours(call) ? launch_with<kNeighbours>(call, stream)
                              : launch_with<1>(call, stream);
}

}  // namespace leat::cuda
