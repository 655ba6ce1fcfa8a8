// The kernels of all elementwise ops: templates over what is done with one element, and with
// neighbours that are read and written at once.
#pragma once

#include <algorithm>

#include "devices/cuda/complaint.h"
#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/pointwise.h"
#include "ops/cuda/vector.cuh"
#include "ops/elements/element.h"

namespace leat::cuda {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;

// Neighbouring threads read neighbouring elements, and each thread has four that are independent.
inline constexpr int kElementsEach = 4;

// The offsets of the first `operands` operands at element i of y.
template <int operands, typename Index>
__device__ inline void find_offsets(const PointwiseCall& call, Index i, int64_t* at) {
  for (int k = 0; k < operands; ++k) at[k] = 0;
  for (int d = call.rank - 1; d > 0; --d) {
    const Index size = static_cast<Index>(call.sizes[d]);
    const Index digit = i % size;
    i /= size;
    for (int k = 0; k < operands; ++k) at[k] += static_cast<int64_t>(digit) * call.steps[k][d];
  }
  for (int k = 0; k < operands; ++k) at[k] += static_cast<int64_t>(i) * call.steps[k][0];
}

// The offsets at element i. Divisions of 64 bits take several times as long as those of 32.
template <typename Body>
__device__ inline void find_offsets_of(const PointwiseCall& call, int64_t i, int64_t* at) {
  if (call.elements <= 0x7fffffff)
    find_offsets<Body::kOperands>(call, static_cast<uint32_t>(i), at);
  else
    find_offsets<Body::kOperands>(call, static_cast<uint64_t>(i), at);
}

// Body::kOperands operands; Body::apply(call, i, at) computes element i.
template <typename Body>
__global__ void pointwise(PointwiseCall call) {
  int64_t i = int64_t{blockIdx.x} * (kBlockThreads * kElementsEach) + threadIdx.x;
  for (int each = 0; each < kElementsEach; ++each, i += kBlockThreads) {
    if (i >= call.elements) return;
    int64_t at[kMostOperands];
    find_offsets_of<Body>(call, i, at);
    Body::apply(call, i, at);
  }
}

// Body::kNeighbours elements for each thread: apply_all(call, i, at) computes them.
template <typename Body>
__global__ void pointwise_neighbours(PointwiseCall call) {
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * Body::kNeighbours;
  if (i >= call.elements) return;
  int64_t at[kMostOperands];
  find_offsets_of<Body>(call, i, at);
  Body::apply_all(call, i, at);
}

// True if, along the last axis, neighbours of y are neighbours of each operand, or one element of
// it, and begin where they can be read at once.
inline bool has_neighbours(const PointwiseCall& call, int operands, int64_t neighbours) {
  const int last = call.rank - 1;
  if (call.sizes[last] % neighbours != 0 || !is_aligned(call.y)) return false;
  for (int k = 0; k < operands; ++k) {
    if (call.steps[k][last] == 0) continue;
    const int64_t* steps = call.steps[k];
    if (steps[last] != 1 || !is_aligned(call.x[k]) ||
        !std::all_of(steps, steps + last, [&](int64_t step) { return step % neighbours == 0; }))
      return false;
  }
  return true;
}

template <typename Body>
cudaError_t launch_pointwise(const PointwiseCall& call, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  if constexpr (Body::kNeighbours > 1) {
    if (has_neighbours(call, Body::kOperands, Body::kNeighbours))
      return launch<&pointwise_neighbours<Body>>(one_thread_each(call.elements / Body::kNeighbours),
                                                 stream, call);
  }
  const int64_t each = kBlockThreads * kElementsEach;
  const LaunchShape shape{dim3(static_cast<unsigned>((call.elements + each - 1) / each)),
                          dim3(kBlockThreads)};
  return launch<&pointwise<Body>>(shape, stream, call);
}

template <typename T>
__device__ inline Compute<T> operand(const PointwiseCall& call, int k, int64_t at) {
  return load(static_cast<const T*>(call.x[k])[at]);
}
template <typename T>
__device__ inline void result(const PointwiseCall& call, int64_t i, Compute<T> value) {
  static_cast<T*>(call.y)[i] = store<T>(value);
}

// Operand k at `at` and behind it; the same element for all if it is broadcast along the last axis.
template <typename T, int n>
__device__ inline Vector<T, n> neighbours(const PointwiseCall& call, int k, int64_t at) {
  const T* from = static_cast<const T*>(call.x[k]) + at;
  if (call.steps[k][call.rank - 1] == 1) return load_vector<T, n>(from);
  Vector<T, n> same;
  for (int j = 0; j < n; ++j) same.of[j] = *from;
  return same;
}

// A functor (ops/elements/) of one operand of T, with a result of Y.
template <typename F, typename T, typename Y = T>
struct Unary {
  static constexpr int kOperands = 1, kNeighbours = neighbours_of<T, Y>();
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    result<Y>(call, i, F::apply(operand<T>(call, 0, at[0]), call.params));
  }
  __device__ static void apply_all(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const auto a = neighbours<T, kNeighbours>(call, 0, at[0]);
    Vector<Y, kNeighbours> y;
#pragma unroll
    for (int j = 0; j < kNeighbours; ++j) y.of[j] = store<Y>(F::apply(load(a.of[j]), call.params));
    store_vector(static_cast<Y*>(call.y) + i, y);
  }
};
template <typename F, typename T, typename Y = T>
struct Binary {
  static constexpr int kOperands = 2, kNeighbours = neighbours_of<T, Y>();
  __device__ static void apply(const PointwiseCall& call, int64_t i, const int64_t* at) {
    result<Y>(call, i,
              F::apply(operand<T>(call, 0, at[0]), operand<T>(call, 1, at[1]), call.params));
  }
  __device__ static void apply_all(const PointwiseCall& call, int64_t i, const int64_t* at) {
    const auto a = neighbours<T, kNeighbours>(call, 0, at[0]);
    const auto b = neighbours<T, kNeighbours>(call, 1, at[1]);
    Vector<Y, kNeighbours> y;
#pragma unroll
    for (int j = 0; j < kNeighbours; ++j)
      y.of[j] = store<Y>(F::apply(load(a.of[j]), load(b.of[j]), call.params));
    store_vector(static_cast<Y*>(call.y) + i, y);
  }
};

// The launch of Body<F, T> for a dtype; null if the set has it not.
template <template <typename, typename, typename> class Body, typename F>
PointwiseLaunch for_floats(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return launch_pointwise<Body<F, float, float>>;
    case DType::f64:
      return launch_pointwise<Body<F, double, double>>;
    case DType::f16:
      return launch_pointwise<Body<F, Half, Half>>;
    case DType::bf16:
      return launch_pointwise<Body<F, BFloat16, BFloat16>>;
    default:
      return nullptr;
  }
}
template <template <typename, typename, typename> class Body, typename F>
PointwiseLaunch for_signed_ints(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return launch_pointwise<Body<F, int8_t, int8_t>>;
    case DType::i16:
      return launch_pointwise<Body<F, int16_t, int16_t>>;
    case DType::i32:
      return launch_pointwise<Body<F, int32_t, int32_t>>;
    case DType::i64:
      return launch_pointwise<Body<F, int64_t, int64_t>>;
    default:
      return nullptr;
  }
}
template <template <typename, typename, typename> class Body, typename F>
PointwiseLaunch for_ints(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return launch_pointwise<Body<F, uint8_t, uint8_t>>;
    case DType::u16:
      return launch_pointwise<Body<F, uint16_t, uint16_t>>;
    case DType::u32:
      return launch_pointwise<Body<F, uint32_t, uint32_t>>;
    case DType::u64:
      return launch_pointwise<Body<F, uint64_t, uint64_t>>;
    default:
      return for_signed_ints<Body, F>(dtype);
  }
}
template <template <typename, typename, typename> class Body, typename F>
PointwiseLaunch for_signed(DType dtype) {
  return is_float(dtype) ? for_floats<Body, F>(dtype) : for_signed_ints<Body, F>(dtype);
}
template <template <typename, typename, typename> class Body, typename F>
PointwiseLaunch for_numbers(DType dtype) {
  return is_float(dtype) ? for_floats<Body, F>(dtype) : for_ints<Body, F>(dtype);
}

// f(T{}) for the C++ type T of a dtype; null for a narrow type, and of the second for all but
// floats.
template <typename F>
PointwiseLaunch launch_for(DType dtype, F f) {
  PointwiseLaunch found = nullptr;
  (void)dispatch_all(dtype, [&](auto zero) { return found = f(zero), cudaSuccess; });
  return found;
}
template <typename F>
PointwiseLaunch launch_for_floats(DType dtype, F f) {
  PointwiseLaunch found = nullptr;
  (void)dispatch_floats(dtype, [&](auto zero) { return found = f(zero), cudaSuccess; });
  return found;
}

// One row of a table of ops.
struct PointwiseEntry {
  std::string_view op;
  PointwiseLaunch (*find)(DType);
};
template <size_t n>
PointwiseLaunch find_in(const PointwiseEntry (&table)[n], std::string_view op, DType dtype) {
  for (const PointwiseEntry& entry : table) {
    if (entry.op == op) return entry.find(dtype);
  }
  return nullptr;
}

}  // namespace leat::cuda
