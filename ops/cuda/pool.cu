#include <limits>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/pool.h"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;

template <typename C>
__device__ inline C lowest() {
  if constexpr (std::is_floating_point_v<C>)
    return -std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::lowest();
}

// ONNX's index of a maximum, from its element of the kernel.
__device__ inline int64_t index_of(const PoolCall& call, int64_t plane, int64_t output,
                                   int64_t element) {
  const WindowShape& w = call.window;
  const Place o = place_of(w.output, output), k = place_of(w.kernel, element);
  int64_t at[3];
  for (int axis = 0; axis < 3; ++axis)
    at[axis] = o.at[axis] * w.stride[axis] - w.begin[axis] + k.at[axis] * w.dilation[axis];
  const int64_t position = call.column_major ? at[0] + w.input[0] * (at[1] + w.input[1] * at[2])
                                             : (at[0] * w.input[1] + at[1]) * w.input[2] + at[2];
  return plane * w.input_area() + position;
}

// The first of equal maxima counts. A NaN counts as larger than any number, and of several the last
// one counts.
template <typename T>
__global__ void max_pool(PoolCall call) {
  using C = Compute<T>;
  const int64_t area = call.window.output_area();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.planes * area) return;
  const int64_t plane = quotient(i, area), output = i - plane * area;
  const T* x = static_cast<const T*>(call.x) + plane * call.window.input_area();
  C best = lowest<C>();
  T kept = store<T>(best);
  int64_t where = 0;
  bool first = true;
  for_taps(call.window, output, [&](int64_t element, int64_t position) {
    const C value = load(x[position]);
    if (!first && !((value > best) | (value != value))) return;
    best = value;
    kept = x[position];
    where = element;
    first = false;
  });
  static_cast<T*>(call.y)[i] = kept;
  if (call.indices) call.indices[i] = index_of(call, plane, output, where);
  if (!call.argmax) return;
  if (call.wide_argmax)
    static_cast<int32_t*>(call.argmax)[i] = static_cast<int32_t>(where);
  else
    static_cast<uint8_t*>(call.argmax)[i] = static_cast<uint8_t>(where);
}

template <typename T>
__global__ void max_pool_grad(PoolCall call) {
  using C = Compute<T>;
  const int64_t area = call.window.input_area(), outputs = call.window.output_area();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.planes * area) return;
  const int64_t plane = quotient(i, area);
  const T* dy = static_cast<const T*>(call.x) + plane * outputs;
  C sum(0);
  for_windows_over(call.window, i - plane * area, [&](int64_t output, int64_t element) {
    const int64_t at = plane * outputs + output;
    const int64_t where = call.wide_argmax ? static_cast<const int32_t*>(call.argmax)[at]
                                           : static_cast<const uint8_t*>(call.argmax)[at];
    sum += where == element ? load(dy[output]) : C(0);
  });
  static_cast<T*>(call.y)[i] = store<T>(sum);
}

// The divisor of a window's sum, as window_count() of the CPU's pools.
__device__ inline int64_t count_of(const PoolCall& call, int64_t output) {
  const WindowShape& w = call.window;
  const Place o = place_of(w.output, output);
  int64_t count = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t start = o.at[axis] * w.stride[axis] - w.begin[axis];
    const int64_t room = w.input[axis] + w.end[axis] - start;
    const int64_t padded = (room + w.dilation[axis] - 1) / w.dilation[axis];
    const Range taps = taps_of(w, axis, o.at[axis]);
    const int64_t inside = taps.end > taps.begin ? taps.end - taps.begin : 0;
    count *= call.count_pads ? (padded < w.kernel[axis] ? padded : w.kernel[axis]) : inside;
  }
  return count > 1 ? count : 1;
}

template <typename T>
__global__ void average_pool(PoolCall call) {
  using C = Compute<T>;
  const int64_t area = call.window.output_area();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.planes * area) return;
  const int64_t plane = quotient(i, area), output = i - plane * area;
  const T* x = static_cast<const T*>(call.x) + plane * call.window.input_area();
  C sum(0);
  for_taps(call.window, output, [&](int64_t, int64_t position) { sum += load(x[position]); });
  static_cast<T*>(call.y)[i] = store<T>(sum / static_cast<C>(count_of(call, output)));
}

template <typename T>
__global__ void average_pool_grad(PoolCall call) {
  using C = Compute<T>;
  const int64_t area = call.window.input_area(), outputs = call.window.output_area();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.planes * area) return;
  const int64_t plane = quotient(i, area);
  const T* dy = static_cast<const T*>(call.x) + plane * outputs;
  C sum(0);
  for_windows_over(call.window, i - plane * area, [&](int64_t output, int64_t) {
    sum += load(dy[output]) / static_cast<C>(count_of(call, output));
  });
  static_cast<T*>(call.y)[i] = store<T>(sum);
}

}  // namespace

cudaError_t launch_max_pool(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t outputs = call.planes * call.window.output_area();
  if (outputs == 0) return cudaSuccess;
  const auto run = [&](auto zero) {
    return launch<&max_pool<decltype(zero)>>(one_thread_each(outputs), stream, call);
  };
  if (dtype == DType::i8) return run(int8_t{});
  if (dtype == DType::u8) return run(uint8_t{});
  return dispatch_floats(dtype, run);
}

cudaError_t launch_max_pool_grad(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t inputs = call.planes * call.window.input_area();
  if (inputs == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&max_pool_grad<decltype(zero)>>(one_thread_each(inputs), stream, call);
  });
}

cudaError_t launch_average_pool(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t outputs = call.planes * call.window.output_area();
  if (outputs == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&average_pool<decltype(zero)>>(one_thread_each(outputs), stream, call);
  });
}

cudaError_t launch_average_pool_grad(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t inputs = call.planes * call.window.input_area();
  if (inputs == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&average_pool_grad<decltype(zero)>>(one_thread_each(inputs), stream, call);
  });
}

}  // namespace leat::cuda
