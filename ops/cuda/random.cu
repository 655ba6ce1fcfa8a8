#include <cmath>
#include <limits>

#include "devices/base/philox_rounds.h"
#include "devices/cuda/complaint.h"
#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/random.h"
#include "ops/elements/any_float.h"
#include "ops/elements/tree_sum.h"

namespace leat::cuda {
namespace {

using philox_rounds::high;
using philox_rounds::low;
using philox_rounds::unit_f32;
using philox_rounds::unit_f64;

// The words of one block of a stream.
struct Words {
  uint32_t at[4];
};
__device__ inline Words block_of(const uint32_t* key, uint64_t index) {
  Words words{{low(index), high(index), key[2], key[3]}};
  philox_rounds::rounds(words.at[0], words.at[1], words.at[2], words.at[3], key[0], key[1]);
  return words;
}
__device__ inline float uniform_f32(const uint32_t* key, uint64_t element) {
  return unit_f32(block_of(key, element / 4).at[element % 4]);
}
__device__ inline double uniform_f64(const uint32_t* key, uint64_t element) {
  const Words words = block_of(key, element / 2);
  const uint64_t at = element % 2 * 2;
  return unit_f64(words.at[at], words.at[at + 1]);
}
__device__ inline double normal_f64(const uint32_t* key, uint64_t element) {
  const Words words = block_of(key, element);
  const double u = unit_f64(words.at[0], words.at[1]) + 0x1p-53;
  const double v = unit_f64(words.at[2], words.at[3]);
  constexpr double kPi = 3.141592653589793238462643383279502884;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * kPi * v);
}

// As RandomStream's constructor.
__global__ void make_key(KeyCall call) {
  const uint64_t seed = call.has_seed ? call.seed : *call.job_seed, step = *call.step;
  Words words{{low(step), high(step), low(call.source), high(call.source)}};
  philox_rounds::rounds(words.at[0], words.at[1], words.at[2], words.at[3], low(seed), high(seed));
  for (int i = 0; i < 4; ++i) call.key[i] = words.at[i];
}

// mean + scale * z, and a number in [low, high): rounding must not reach high.
template <typename A>
__device__ inline A drawn(const RandomCall& call, uint64_t element) {
  if constexpr (std::is_floating_point_v<A>) {
    constexpr bool is_double = std::is_same_v<A, double>;
    if (call.normal) {
      const double z = normal_f64(call.key, element);
      if constexpr (is_double) return call.first + call.second * z;
      return static_cast<A>(call.first + call.second * static_cast<double>(static_cast<float>(z)));
    }
    double unit = 0;
    if constexpr (is_double)
      unit = uniform_f64(call.key, element);
    else
      unit = uniform_f32(call.key, element);
    const A value = static_cast<A>(call.first + (call.second - call.first) * unit);
    const A end = static_cast<A>(call.second);
    return value >= end && call.first < call.second
               ? std::nextafter(end, static_cast<A>(call.first))
               : value;
  } else {
    return A(0);  // validate() refuses these dtypes
  }
}

template <typename T>
__global__ void draw(RandomCall call) {
  using A = Compute<T>;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  const auto element = static_cast<uint64_t>(call.first_element + i);
  A value(0);
  if (call.probabilities) {
    const double p = float_at(call.probabilities, call.probability_dtype, i);
    value = static_cast<A>(static_cast<double>(uniform_f32(call.key, element)) < p ? 1 : 0);
  } else {
    value = drawn<A>(call, element);
  }
  static_cast<T*>(call.y)[i] = store_from_compute<T>(value);
}

// 0 outside of training, so that no element is dropped.
__device__ inline double ratio_of(const DropoutCall& call) {
  if (!call.training || !*call.training) return 0;
  return call.ratio ? float_at(call.ratio, call.ratio_dtype, 0) : 0.5;
}

template <typename T>
__global__ void dropout(DropoutCall call) {
  using A = Compute<T>;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  const double ratio = ratio_of(call);
  if (!(ratio >= 0 && ratio <= 1) && i == 0) call.complaint->write(0, 0);
  const double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
  const float unit =
      ratio > 0 ? uniform_f32(call.key, static_cast<uint64_t>(call.first_element + i)) : 1.0f;
  const bool keeps = unit >= static_cast<float>(ratio);
  if (call.mask) call.mask[i] = keeps;
  const A x = load_as_compute(static_cast<const T*>(call.x)[i]);
  static_cast<T*>(call.y)[i] = keeps ? store_from_compute<T>(x * static_cast<A>(scale)) : T{};
}

template <typename T>
__global__ void dropout_grad(DropoutCall call) {
  using A = Compute<T>;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  const double ratio = ratio_of(call);
  const double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
  const A dy = load_as_compute(static_cast<const T*>(call.x)[i]);
  static_cast<T*>(call.y)[i] =
      call.mask[i] ? store_from_compute<T>(dy * static_cast<A>(scale)) : T{};
}

}  // namespace

cudaError_t launch_key(const KeyCall& call, cudaStream_t stream) {
  return launch<&make_key>({dim3(1), dim3(1)}, stream, call);
}

cudaError_t launch_random(const RandomCall& call, DType dtype, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_all(dtype, [&](auto zero) {
    return launch<&draw<decltype(zero)>>(one_thread_each(call.elements), stream, call);
  });
}

cudaError_t launch_dropout(const DropoutCall& call, DType dtype, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&dropout<decltype(zero)>>(one_thread_each(call.elements), stream, call);
  });
}

cudaError_t launch_dropout_grad(const DropoutCall& call, DType dtype, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&dropout_grad<decltype(zero)>>(one_thread_each(call.elements), stream, call);
  });
}

}  // namespace leat::cuda
