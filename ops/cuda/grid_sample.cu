#include <type_traits>

#include "devices/cuda/launch.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/grid_sample.h"
#include "ops/elements/element.h"

namespace leat::cuda {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;

// The taps of a place; its coordinates are in the order from the last axis.
template <typename T>
struct PlaceTaps {
  LEAT_INLINE PlaceTaps(const GridSampleCall& call, int64_t row, int64_t place) {
    const T* grid = static_cast<const T*>(call.grid) + (row * call.places + place) * call.axes;
    for (int d = 0; d < call.axes; ++d) {
      const auto coordinate = static_cast<double>(load(grid[call.axes - 1 - d]));
      of[d] = axis_taps(call.spec, coordinate, call.size[d]);
    }
  }
  AxisTaps of[kMostSampleAxes];
};

// One thread for each element of y.
template <typename T>
__global__ void sample(GridSampleCall call) {
  using A = Compute<T>;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.rows * call.channels * call.places) return;
  const int64_t place = i % call.places, plane = i / call.places, row = plane / call.channels;
  const T* x = static_cast<const T*>(call.x) + plane * call.elements;
  A sum = 0;
  if (call.elements > 0) {
    const PlaceTaps<T> taps(call, row, place);
    each_tap(taps.of, call.axes, call.size, [&](int64_t offset, double weight, const double*) {
      sum += static_cast<A>(weight) * load(x[offset]);
    });
  }
  static_cast<T*>(call.y)[i] = store<T>(sum);
}

// Places add to common elements: one thread for each channel of each row, which takes the places in
// their order.
template <typename T>
__global__ void input_gradient(GridSampleCall call) {
  using A = Compute<T>;
  const int64_t plane = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (plane >= call.rows * call.channels) return;
  const T* dy = static_cast<const T*>(call.dy) + plane * call.places;
  T* dx = static_cast<T*>(call.dx) + plane * call.elements;
  A* sums =
      static_cast<A*>(std::is_same_v<T, A> ? call.dx : call.workspace) + plane * call.elements;
  for (int64_t e = 0; e < call.elements; ++e) sums[e] = 0;
  if (call.elements == 0) return;
  for (int64_t place = 0; place < call.places; ++place) {
    const A g = load(dy[place]);
    const PlaceTaps<T> taps(call, plane / call.channels, place);
    each_tap(taps.of, call.axes, call.size, [&](int64_t offset, double weight, const double*) {
      sums[offset] += static_cast<A>(weight) * g;
    });
  }
  if constexpr (!std::is_same_v<T, A>) {
    for (int64_t e = 0; e < call.elements; ++e) dx[e] = store<T>(sums[e]);
  }
}

// One thread for each place of each row.
template <typename T>
__global__ void grid_gradient(GridSampleCall call) {
  using A = Compute<T>;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.rows * call.places) return;
  const int64_t row = i / call.places, place = i % call.places;
  const T* dy = static_cast<const T*>(call.dy) + row * call.channels * call.places + place;
  const T* x = static_cast<const T*>(call.x) + row * call.channels * call.elements;
  A sums[kMostSampleAxes] = {};
  if (call.elements > 0) {
    const PlaceTaps<T> taps(call, row, place);
    each_tap(taps.of, call.axes, call.size, [&](int64_t offset, double, const double* slopes) {
      A sum = 0;
      for (int64_t c = 0; c < call.channels; ++c)
        sum += load(x[c * call.elements + offset]) * load(dy[c * call.places]);
      for (int d = 0; d < call.axes; ++d) sums[d] += static_cast<A>(slopes[d]) * sum;
    });
  }
  T* dgrid = static_cast<T*>(call.dgrid) + i * call.axes;
  for (int d = 0; d < call.axes; ++d) dgrid[call.axes - 1 - d] = store<T>(sums[d]);
}

}  // namespace

cudaError_t launch_grid_sample(const GridSampleCall& call, DType dtype, cudaStream_t stream) {
  const int64_t elements = call.rows * call.channels * call.places;
  if (elements == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&sample<decltype(zero)>>(one_thread_each(elements), stream, call);
  });
}

size_t grid_sample_grad_workspace(const GridSampleCall& call, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return 0;
  return static_cast<size_t>(call.rows * call.channels * call.elements) * sizeof(float);
}

cudaError_t launch_grid_sample_grad(const GridSampleCall& call, DType dtype, cudaStream_t stream) {
  const int64_t planes = call.rows * call.channels, places = call.rows * call.places;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    cudaError_t error = cudaSuccess;
    if (planes > 0) error = launch<&input_gradient<T>>(one_thread_each(planes), stream, call);
    if (error == cudaSuccess && places > 0)
      error = launch<&grid_gradient<T>>(one_thread_each(places), stream, call);
    return error;
  });
}

}  // namespace leat::cuda
