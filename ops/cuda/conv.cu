#include <cmath>
#include <utility>

#include "devices/cuda/launch.h"
#include "ops/cuda/conv.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/dispatch.cuh"
#include "ops/cuda/reduce.h"
#include "ops/cuda/warp_fold.cuh"

namespace leat::cuda {
namespace {

template <typename A>
__device__ inline A multiply_add(A a, A b, A sum) {
  if constexpr (std::is_same_v<A, float>)
    return fmaf(a, b, sum);
  else
    return fma(a, b, sum);
}

// One thread for each element of y: over the channels of its group, and the taps.
template <typename T>
__global__ void conv_forward(ConvCall call) {
  using A = Compute<T>;
  const int64_t area = call.window.output_area(), taps = call.window.kernel_area();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.images * call.outputs * area) return;
  const int64_t image = i / (call.outputs * area), output = i / area % call.outputs;
  const int64_t channels = call.inputs / call.groups;
  const int64_t first = output / (call.outputs / call.groups) * channels;
  const T* w = static_cast<const T*>(call.w) + output * channels * taps;
  A sum(0);
  for (int64_t c = 0; c < channels; ++c) {
    const T* x = static_cast<const T*>(call.x) +
                 (image * call.inputs + first + c) * call.window.input_area();
    for_taps(call.window, i % area, [&](int64_t element, int64_t position) {
      sum = multiply_add(load_as_compute(x[position]), load_as_compute(w[c * taps + element]), sum);
    });
  }
  if (call.bias) sum = sum + load_as_compute(static_cast<const T*>(call.bias)[output]);
  if (call.relu) sum = !(sum <= A(0)) ? sum : A(0);
  static_cast<T*>(call.y)[i] = store_from_compute<T>(sum);
}

// One thread for each element of x: over the outputs of its group, and the windows that cover it.
template <typename T>
__global__ void conv_backward_data(ConvCall call) {
  using A = Compute<T>;
  const int64_t area = call.window.input_area(), taps = call.window.kernel_area();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= call.images * call.inputs * area) return;
  const int64_t image = i / (call.inputs * area), input = i / area % call.inputs;
  const int64_t channels = call.inputs / call.groups, each = call.outputs / call.groups;
  const int64_t group = input / channels;
  A sum(0);
  for (int64_t o = group * each; o < (group + 1) * each; ++o) {
    const T* y =
        static_cast<const T*>(call.y) + (image * call.outputs + o) * call.window.output_area();
    const T* w = static_cast<const T*>(call.w) + (o * channels + input % channels) * taps;
    for_windows_over(call.window, i % area, [&](int64_t output, int64_t element) {
      sum = multiply_add(load_as_compute(y[output]), load_as_compute(w[element]), sum);
    });
  }
  if (call.bias) sum = sum + load_as_compute(static_cast<const T*>(call.bias)[input]);
  static_cast<T*>(call.x)[i] = store_from_compute<T>(sum);
}

// One warp for each weight: a tree over the images and the outputs.
template <typename T>
__global__ void conv_backward_weights(ConvCall call) {
  using A = Compute<T>;
  const WindowShape& window = call.window;
  const int64_t taps = window.kernel_area(), channels = call.inputs / call.groups;
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (i >= call.outputs * channels * taps) return;
  const int64_t output = i / (channels * taps);
  const int64_t input = output / (call.outputs / call.groups) * channels + i / taps % channels;
  const Place k = place_of(window.kernel, i % taps);
  const int64_t area = window.output_area();
  const A sum = warp_tree_sum<A>(call.images * area, [&](int64_t n) {
    const int64_t image = n / area;
    const Place o = place_of(window.output, n % area);
    int64_t position = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t at = o.at[axis] * window.stride[axis] - window.begin[axis] +
                         k.at[axis] * window.dilation[axis];
      if (at < 0 || at >= window.input[axis]) return A(0);
      position = position * window.input[axis] + at;
    }
    const T* x =
        static_cast<const T*>(call.x) + (image * call.inputs + input) * window.input_area();
    const T* y = static_cast<const T*>(call.y) + (image * call.outputs + output) * area;
    return load_as_compute(x[position]) * load_as_compute(y[n % area]);
  });
  if (threadIdx.x % kWarp == 0) static_cast<T*>(call.w)[i] = store_from_compute<T>(sum);
}

// One thread for each element.
template <typename T>
__global__ void add_bias(T* y, const T* bias, int64_t elements, int64_t channels, int64_t area,
                         bool relu) {
  using A = Compute<T>;
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= elements) return;
  A value = load_as_compute(y[i]);
  // Divisions of 64 bits take several times as long as those of 32.
  if (bias && elements > 0x7fffffff) {
    value = value + load_as_compute(bias[i / area % channels]);
  } else if (bias) {
    const auto plane = static_cast<uint32_t>(i) / static_cast<uint32_t>(area);
    value = value + load_as_compute(bias[plane % static_cast<uint32_t>(channels)]);
  }
  if (relu) value = !(value <= A(0)) ? value : A(0);
  y[i] = store_from_compute<T>(value);
}

// The bias' gradient as a reduction of y over its images and its places.
ReduceCall bias_reduction(const ConvCall& call) {
  const int64_t area = call.window.output_area();
  ReduceCall reduce;
  reduce.x = call.y;
  reduce.y = call.bias;
  reduce.workspace = call.workspace;
  reduce.row_elements = call.images * call.outputs * area;
  reduce.row_results = call.outputs;
  reduce.folded = call.images * area;
  if (call.channels_last) {
    reduce.line = call.outputs;
    reduce.reduced = {1, call.images * area, {call.images * area}, {call.outputs}};
    return reduce;
  }
  reduce.line_reduced = true;
  reduce.line = area;
  reduce.kept = {1, call.outputs, {call.outputs}, {area}};
  reduce.reduced = {1, call.images, {call.images}, {call.outputs * area}};
  return reduce;
}

}  // namespace

cudaError_t launch_conv_forward(const ConvCall& call, DType dtype, cudaStream_t stream) {
  const int64_t results = call.images * call.outputs * call.window.output_area();
  if (results == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&conv_forward<decltype(zero)>>(one_thread_each(results), stream, call);
  });
}

cudaError_t launch_conv_backward_data(const ConvCall& call, DType dtype, cudaStream_t stream) {
  const int64_t results = call.images * call.inputs * call.window.input_area();
  if (results == 0) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    return launch<&conv_backward_data<decltype(zero)>>(one_thread_each(results), stream, call);
  });
}

cudaError_t launch_conv_backward_weights(const ConvCall& call, DType dtype, cudaStream_t stream) {
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t weights = call.outputs * (call.inputs / call.groups) * call.window.kernel_area();
    if (weights > 0) {
      const auto error = launch<&conv_backward_weights<T>>(one_warp_each(weights), stream, call);
      if (error != cudaSuccess) return error;
    }
    return launch_conv_bias_grad(call, dtype, stream);
  });
}

cudaError_t launch_conv_finish(const ConvCall& call, DType dtype, cudaStream_t stream) {
  const int64_t area = call.window.output_area(), elements = call.images * call.outputs * area;
  if (elements == 0 || (!call.bias && !call.relu)) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch<&add_bias<T>>(one_thread_each(elements), stream, static_cast<T*>(call.y),
                                static_cast<const T*>(call.bias), elements, call.outputs,
                                call.channels_last ? int64_t{1} : area, call.relu);
  });
}

cudaError_t launch_conv_finish_data(const ConvCall& call, DType dtype, cudaStream_t stream) {
  const int64_t area = call.window.input_area(), elements = call.images * call.inputs * area;
  if (elements == 0 || !call.bias) return cudaSuccess;
  return dispatch_floats(dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch<&add_bias<T>>(one_thread_each(elements), stream, static_cast<T*>(call.x),
                                static_cast<const T*>(call.bias), elements, call.inputs,
                                call.channels_last ? int64_t{1} : area, false);
  });
}

cudaError_t launch_conv_bias_grad(const ConvCall& call, DType dtype, cudaStream_t stream) {
  if (!call.bias || call.outputs == 0) return cudaSuccess;
  const ReduceCall reduce = bias_reduction(call);
  if (reduce.folded > 0) return launch_reduce(reduce, dtype, stream);
  return launch_fill_bits(call.bias, empty_result_bits(reduce.reduction, dtype), call.outputs,
                          dtype_size(dtype), stream);
}

namespace {

// [images, channels, area], with the distances of its elements in both memories.
CopyCall permutation(int64_t images, int64_t channels, int64_t area) {
  CopyCall call;
  call.rank = 3;
  call.elements = images * channels * area;
  const int64_t sizes[] = {images, area, channels};
  const int64_t plain[] = {channels * area, 1, area}, last[] = {channels * area, channels, 1};
  for (int d = 0; d < 3; ++d) {
    call.sizes[d] = sizes[d];
    call.in_steps[d] = plain[d];
    call.out_steps[d] = last[d];
  }
  return call;
}

}  // namespace

cudaError_t launch_channels_last(const void* plain, void* last, int64_t images, int64_t channels,
                                 int64_t area, size_t element_bytes, cudaStream_t stream) {
  CopyCall call = permutation(images, channels, area);
  call.in = plain;
  call.out = last;
  return launch_copy(call, element_bytes, stream);
}

cudaError_t launch_channels_first(const void* last, void* plain, int64_t images, int64_t channels,
                                  int64_t area, size_t element_bytes, cudaStream_t stream) {
  CopyCall call = permutation(images, channels, area);
  std::swap(call.in_steps, call.out_steps);
  call.in = last;
  call.out = plain;
  return launch_copy(call, element_bytes, stream);
}

size_t bias_grad_workspace(const ConvCall& call, DType dtype) {
  return call.images * call.window.output_area() > 0 ? reduce_workspace(bias_reduction(call), dtype)
                                                     : 0;
}

}  // namespace leat::cuda
