#include <type_traits>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/resize.h"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;

// One thread for each element of y. The sum begins as the CPU's does, which the sign of a zero
// shows.
template <typename From, typename To>
__global__ void resize_pass(ResizePassCall call) {
  using A = Compute<From>;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.before * call.out * call.after) return;
  const int64_t column = i % call.after, j = i / call.after % call.out,
                row = i / call.after / call.out;
  const From* x = static_cast<const From*>(call.x) + row * call.in * call.after + column;
  const int64_t begin = call.first[j], end = call.first[j + 1];
  A sum = 0;
  for (int64_t k = begin; k < end; ++k) {
    const A term = static_cast<A>(call.weight[k]) * load(x[call.index[k] * call.after]);
    sum = k == begin && call.after > 1 ? term : sum + term;
  }
  static_cast<To*>(call.y)[i] = store<To>(sum);
}

template <typename Bits>
__global__ void pick_pass(ResizePassCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.before * call.out * call.after) return;
  const int64_t column = i % call.after, j = i / call.after % call.out,
                row = i / call.after / call.out;
  static_cast<Bits*>(call.y)[i] =
      static_cast<const Bits*>(call.x)[(row * call.in + call.index[j]) * call.after + column];
}

template <typename Bits>
__global__ void extrapolate(ExtrapolateCall call) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.elements) return;
  for (int a = 0; a < call.count; ++a) {
    const ExtrapolateCall::Axis& axis = call.axes[a];
    if (axis.outside && axis.outside[i / axis.after % axis.out])
      static_cast<Bits*>(call.y)[i] = static_cast<Bits>(call.bits);
  }
}

}  // namespace

cudaError_t launch_resize_pass(const ResizePassCall& call, DType from, DType to,
                               cudaStream_t stream) {
  const int64_t elements = call.before * call.out * call.after;
  if (elements == 0) return cudaSuccess;
  const LaunchShape shape = one_thread_each(elements);
  if (from == to) {
    return dispatch_floats(from, [&](auto zero) {
      using T = decltype(zero);
      return launch<&resize_pass<T, T>>(shape, stream, call);
    });
  }
  if (to == DType::f32) {
    return from == DType::f16 ? launch<&resize_pass<Half, float>>(shape, stream, call)
                              : launch<&resize_pass<BFloat16, float>>(shape, stream, call);
  }
  return to == DType::f16 ? launch<&resize_pass<float, Half>>(shape, stream, call)
                          : launch<&resize_pass<float, BFloat16>>(shape, stream, call);
}

cudaError_t launch_pick_pass(const ResizePassCall& call, size_t bytes, cudaStream_t stream) {
  const int64_t elements = call.before * call.out * call.after;
  if (elements == 0) return cudaSuccess;
  return dispatch_size(bytes, [&](auto zero) {
    return launch<&pick_pass<decltype(zero)>>(one_thread_each(elements), stream, call);
  });
}

cudaError_t launch_extrapolate(const ExtrapolateCall& call, size_t bytes, cudaStream_t stream) {
  if (call.elements == 0) return cudaSuccess;
  return dispatch_size(bytes, [&](auto zero) {
    return launch<&extrapolate<decltype(zero)>>(one_thread_each(call.elements), stream, call);
  });
}

}  // namespace leat::cuda
