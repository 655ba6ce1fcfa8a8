#include <algorithm>
#include <limits>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/pool.h"
#include "ops/cuda/vector.cuh"
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

// The plane of element i of an operand, whose planes have `area` elements, and its place there.
template <typename I>
struct PlaceInPlane {
  I plane, place;
};
template <typename I>
__device__ inline PlaceInPlane<I> place_in_plane(const PoolCall& call, I area, I i) {
  const I channels = static_cast<I>(call.channels);
  if (channels == 0) return {i / area, i % area};
  const I line = i / channels, image = line / area;
  return {image * channels + i % channels, line - image * area};
}
// The elements of one plane.
template <typename T, typename I>
struct Plane {
  T* first;
  I step;
  __device__ T& operator[](I place) const { return first[place * step]; }
};
template <typename T, typename I>
__device__ inline Plane<T, I> plane_of(const PoolCall& call, T* data, I area, I plane) {
  const I channels = static_cast<I>(call.channels);
  if (channels == 0) return {data + plane * area, I{1}};
  const I image = plane / channels;
  return {data + image * area * channels + plane % channels, channels};
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
template <typename T, typename I>
__global__ void max_pool(PoolCall call, WindowOf<I> window) {
  using C = Compute<T>;
  const I area = window.output_area();
  const I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x);
  if (i >= static_cast<I>(call.planes) * area) return;
  const auto [plane, output] = place_in_plane(call, area, i);
  const auto x = plane_of(call, static_cast<const T*>(call.x), window.input_area(), plane);
  C best = lowest<C>();
  T kept = store<T>(best);
  I where = 0;
  bool first = true;
  for_taps(window, output, [&](I element, I position) {
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

template <typename T, typename I>
__global__ void max_pool_grad(PoolCall call, WindowOf<I> window) {
  using C = Compute<T>;
  const I area = window.input_area(), outputs = window.output_area();
  const I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x);
  if (i >= static_cast<I>(call.planes) * area) return;
  const auto [plane, input] = place_in_plane(call, area, i);
  const auto dy = plane_of(call, static_cast<const T*>(call.x), outputs, plane);
  const auto wide = plane_of(call, static_cast<const int32_t*>(call.argmax), outputs, plane);
  const auto narrow = plane_of(call, static_cast<const uint8_t*>(call.argmax), outputs, plane);
  C sum(0);
  for_windows_over(window, input, [&](I output, I element) {
    const I where =
        call.wide_argmax ? static_cast<I>(wide[output]) : static_cast<I>(narrow[output]);
    sum += where == element ? load(dy[output]) : C(0);
  });
  static_cast<T*>(call.y)[i] = store<T>(sum);
}

// A thread has n neighbouring channels of a place, for operands whose channels are last.
template <typename I>
struct ChannelsOfPlace {
  __device__ ChannelsOfPlace(const PoolCall& call, I i, I area, int n) {
    const I groups = static_cast<I>(call.channels) / static_cast<I>(n), line = i / groups;
    channel = (i - line * groups) * static_cast<I>(n);
    image = line / area;
    place = line - image * area;
  }
  I image, place, channel;
};

// As max_pool() without ONNX's indices.
template <typename T, int n, typename I>
__global__ void max_pool_last(PoolCall call, WindowOf<I> window) {
  using C = Compute<T>;
  const I area = window.output_area(), channels = static_cast<I>(call.channels);
  const I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x);
  if (i >= static_cast<I>(call.planes) * area / n) return;
  const ChannelsOfPlace<I> at(call, i, area, n);
  const T* x =
      static_cast<const T*>(call.x) + at.image * window.input_area() * channels + at.channel;
  C best[n];
  I where[n];
  for (int j = 0; j < n; ++j) {
    best[j] = lowest<C>();
    where[j] = 0;
  }
  Vector<T, n> kept;
  for (int j = 0; j < n; ++j) kept.of[j] = store<T>(best[j]);
  bool first = true;
  for_taps(window, at.place, [&](I element, I position) {
    const auto values = load_vector<T, n>(x + position * channels);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const C value = load(values.of[j]);
      if (!first && !((value > best[j]) | (value != value))) continue;
      best[j] = value;
      kept.of[j] = values.of[j];
      where[j] = element;
    }
    first = false;
  });
  const I to = (at.image * area + at.place) * channels + at.channel;
  store_vector(static_cast<T*>(call.y) + to, kept);
  if (!call.argmax) return;
  if (call.wide_argmax) {
    for (int j = 0; j < n; ++j)
      static_cast<int32_t*>(call.argmax)[to + j] = static_cast<int32_t>(where[j]);
    return;
  }
  Vector<uint8_t, n> narrow;
  for (int j = 0; j < n; ++j) narrow.of[j] = static_cast<uint8_t>(where[j]);
  store_vector(static_cast<uint8_t*>(call.argmax) + to, narrow);
}

// As max_pool_grad().
template <typename T, int n, typename I>
__global__ void max_pool_grad_last(PoolCall call, WindowOf<I> window) {
  using C = Compute<T>;
  const I area = window.input_area(), outputs = window.output_area();
  const I channels = static_cast<I>(call.channels);
  const I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x);
  if (i >= static_cast<I>(call.planes) * area / n) return;
  const ChannelsOfPlace<I> at(call, i, area, n);
  const I from = at.image * outputs * channels + at.channel;
  C sums[n] = {};
  for_windows_over(window, at.place, [&](I output, I element) {
    const I place = from + output * channels;
    const auto dy = load_vector<T, n>(static_cast<const T*>(call.x) + place);
    if (call.wide_argmax) {
      const int32_t* where = static_cast<const int32_t*>(call.argmax) + place;
      for (int j = 0; j < n; ++j)
        sums[j] += static_cast<I>(where[j]) == element ? load(dy.of[j]) : C(0);
      return;
    }
    const auto where = load_vector<uint8_t, n>(static_cast<const uint8_t*>(call.argmax) + place);
#pragma unroll
    for (int j = 0; j < n; ++j)
      sums[j] += static_cast<I>(where.of[j]) == element ? load(dy.of[j]) : C(0);
  });
  Vector<T, n> dx;
  for (int j = 0; j < n; ++j) dx.of[j] = store<T>(sums[j]);
  store_vector(static_cast<T*>(call.y) + (at.image * area + at.place) * channels + at.channel, dx);
}

// True if these kernels can be launched.
template <typename T>
bool has_channels_last(const PoolCall& call) {
  return !call.indices && call.channels > 0 && call.channels % neighbours_of<T>() == 0 &&
         is_aligned(call.x) && is_aligned(call.y) && is_aligned(call.argmax);
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

template <typename T, typename I>
__global__ void average_pool(PoolCall call, WindowOf<I> window) {
  using C = Compute<T>;
  const I area = window.output_area();
  const I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x);
  if (i >= static_cast<I>(call.planes) * area) return;
  const auto [plane, output] = place_in_plane(call, area, i);
  const auto x = plane_of(call, static_cast<const T*>(call.x), window.input_area(), plane);
  C sum(0);
  for_taps(window, output, [&](I, I position) { sum += load(x[position]); });
  static_cast<T*>(call.y)[i] = store<T>(sum / static_cast<C>(count_of(call, output)));
}

template <typename T, typename I>
__global__ void average_pool_grad(PoolCall call, WindowOf<I> window) {
  using C = Compute<T>;
  const I area = window.input_area(), outputs = window.output_area();
  const I i = static_cast<I>(blockIdx.x) * static_cast<I>(blockDim.x) + static_cast<I>(threadIdx.x);
  if (i >= static_cast<I>(call.planes) * area) return;
  const auto [plane, input] = place_in_plane(call, area, i);
  const auto dy = plane_of(call, static_cast<const T*>(call.x), outputs, plane);
  C sum(0);
  for_windows_over(window, input, [&](I output, I) {
    sum += load(dy[output]) / static_cast<C>(count_of(call, output));
  });
  static_cast<T*>(call.y)[i] = store<T>(sum);
}

// Calls f with the window, in numbers of 32 bits if all places of both operands fit.
template <typename F>
cudaError_t with_window(const PoolCall& call, F f) {
  const WindowShape& w = call.window;
  // Sums of a place and of what lies around it fit, too.
  constexpr int64_t kMost = int64_t{1} << 29;
  bool fits = call.planes * std::max(w.input_area(), w.output_area()) < kMost;
  for (int axis = 0; axis < 3; ++axis) {
    for (const int64_t size : {w.kernel[axis] * w.dilation[axis], w.output[axis] * w.stride[axis],
                               w.begin[axis], w.end[axis]})
      fits = fits && size < kMost && size > -kMost;
  }
  return fits ? f(narrowed(w)) : f(w);
}

}  // namespace

cudaError_t launch_max_pool(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t outputs = call.planes * call.window.output_area();
  if (outputs == 0) return cudaSuccess;
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return with_window(call, [&]<typename I>(const WindowOf<I>& window) {
      if constexpr (constexpr int n = neighbours_of<T>(); n > 1) {
        if (has_channels_last<T>(call))
          return launch<&max_pool_last<T, n, I>>(one_thread_each(outputs / n), stream, call,
                                                 window);
      }
      return launch<&max_pool<T, I>>(one_thread_each(outputs), stream, call, window);
    });
  };
  if (dtype == DType::i8) return run(int8_t{});
  if (dtype == DType::u8) return run(uint8_t{});
  return dispatch_floats(dtype, run);
}

cudaError_t launch_max_pool_grad(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t inputs = call.planes * call.window.input_area();
  if (inputs == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    return with_window(call, [&]<typename I>(const WindowOf<I>& window) {
      if constexpr (constexpr int n = neighbours_of<T>(); n > 1) {
        if (has_channels_last<T>(call))
          return launch<&max_pool_grad_last<T, n, I>>(one_thread_each(inputs / n), stream, call,
                                                      window);
      }
      return launch<&max_pool_grad<T, I>>(one_thread_each(inputs), stream, call, window);
    });
  });
}

cudaError_t launch_average_pool(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t outputs = call.planes * call.window.output_area();
  if (outputs == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return with_window(call, [&]<typename I>(const WindowOf<I>& window) {
      return launch<&average_pool<decltype(zero), I>>(one_thread_each(outputs), stream, call,
                                                      window);
    });
  });
}

cudaError_t launch_average_pool_grad(const PoolCall& call, DType dtype, cudaStream_t stream) {
  const int64_t inputs = call.planes * call.window.input_area();
  if (inputs == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return with_window(call, [&]<typename I>(const WindowOf<I>& window) {
      return launch<&average_pool_grad<decltype(zero), I>>(one_thread_each(inputs), stream, call,
                                                           window);
    });
  });
}

}  // namespace leat::cuda
