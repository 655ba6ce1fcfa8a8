// The window of a pool or a convolution, as kernels see it: Window in ops/definitions/window.h.
//
// Numbers are of type I: int64_t, or int32_t where all places fit into it, because GPUs take
// several times as long to divide numbers of 64 bits.
#pragma once

#include <cstdint>

#include "devices/base/inline.h"

namespace leat::cuda {

template <typename I>
struct WindowOf {
  I input[3] = {1, 1, 1}, output[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  I stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, begin[3] = {}, end[3] = {};

  LEAT_INLINE I input_area() const { return input[0] * input[1] * input[2]; }
  LEAT_INLINE I output_area() const { return output[0] * output[1] * output[2]; }
  LEAT_INLINE I kernel_area() const { return kernel[0] * kernel[1] * kernel[2]; }
};
using WindowShape = WindowOf<int64_t>;

// The same window in numbers of 32 bits. REQUIRES: all of them fit.
inline WindowOf<int32_t> narrowed(const WindowShape& w) {
  WindowOf<int32_t> out;
  for (int axis = 0; axis < 3; ++axis) {
    out.input[axis] = static_cast<int32_t>(w.input[axis]);
    out.output[axis] = static_cast<int32_t>(w.output[axis]);
    out.kernel[axis] = static_cast<int32_t>(w.kernel[axis]);
    out.stride[axis] = static_cast<int32_t>(w.stride[axis]);
    out.dilation[axis] = static_cast<int32_t>(w.dilation[axis]);
    out.begin[axis] = static_cast<int32_t>(w.begin[axis]);
    out.end[axis] = static_cast<int32_t>(w.end[axis]);
  }
  return out;
}

// A place on the three axes, of its row-major number.
template <typename I>
struct PlaceOf {
  I at[3];
};
using Place = PlaceOf<int64_t>;
template <typename I>
LEAT_INLINE PlaceOf<I> place_of(const I (&sizes)[3], I number) {
  const I row = number / sizes[2], plane = sizes[0] == 1 ? I{0} : row / sizes[1];
  return {{plane, row - plane * sizes[1], number - row * sizes[2]}};
}
// GPUs take long for a division: most windows have steps of 1.
template <typename I>
LEAT_INLINE I in_steps(I distance, I step) {
  return step == 1 ? distance : distance / step;
}

// The numbers from `begin` to `end`, exclusive.
template <typename I>
struct RangeOf {
  I begin, end;
};
using Range = RangeOf<int64_t>;

// The elements of the kernel that are inside the input, for one output along one axis.
template <typename I>
LEAT_INLINE RangeOf<I> taps_of(const WindowOf<I>& w, int axis, I output) {
  const I start = output * w.stride[axis] - w.begin[axis], step = w.dilation[axis];
  const I begin = start >= 0 ? I{0} : in_steps<I>(-start + step - 1, step);
  const I last = start >= w.input[axis] ? I{0} : in_steps<I>(w.input[axis] - 1 - start, step) + 1;
  return {begin, last < w.kernel[axis] ? last : w.kernel[axis]};
}

// Calls f(element of the kernel, position of the input) for the taps of an output, in row-major
// order.
template <typename I, typename F>
LEAT_INLINE void for_taps(const WindowOf<I>& w, I output, F f) {
  const PlaceOf<I> o = place_of(w.output, output);
  RangeOf<I> taps[3];
  I start[3];
  for (int axis = 0; axis < 3; ++axis) {
    taps[axis] = taps_of(w, axis, o.at[axis]);
    start[axis] = o.at[axis] * w.stride[axis] - w.begin[axis];
  }
  for (I i = taps[0].begin; i < taps[0].end; ++i) {
    for (I j = taps[1].begin; j < taps[1].end; ++j) {
      for (I k = taps[2].begin; k < taps[2].end; ++k) {
        const I row = (start[0] + i * w.dilation[0]) * w.input[1] + start[1] + j * w.dilation[1];
        f((i * w.kernel[1] + j) * w.kernel[2] + k, row * w.input[2] + start[2] + k * w.dilation[2]);
      }
    }
  }
}

// The outputs whose windows may cover a position of the input along one axis.
template <typename I>
LEAT_INLINE RangeOf<I> outputs_over(const WindowOf<I>& w, int axis, I position) {
  const I shifted = position + w.begin[axis];
  const I first = shifted - (w.kernel[axis] - 1) * w.dilation[axis];
  const I begin = first <= 0 ? I{0} : in_steps<I>(first + w.stride[axis] - 1, w.stride[axis]);
  const I end = in_steps<I>(shifted, w.stride[axis]) + 1;
  return {begin, end < w.output[axis] ? end : w.output[axis]};
}

// The element of the kernel at a distance from the window's begin; -1 if it is between two.
template <typename I>
LEAT_INLINE I element_at(I distance, I dilation) {
  if (dilation == 1) return distance;
  const I element = distance / dilation;
  return element * dilation == distance ? element : -1;
}

// Calls f(output, element of the kernel) for each window that covers an input, in the row-major
// order of the outputs.
template <typename I, typename F>
LEAT_INLINE void for_windows_over(const WindowOf<I>& w, I input, F f) {
  const PlaceOf<I> p = place_of(w.input, input);
  RangeOf<I> over[3];
  for (int axis = 0; axis < 3; ++axis) over[axis] = outputs_over(w, axis, p.at[axis]);
  for (I i = over[0].begin; i < over[0].end; ++i) {
    const I ki = element_at<I>(p.at[0] + w.begin[0] - i * w.stride[0], w.dilation[0]);
    if (ki < 0) continue;
    for (I j = over[1].begin; j < over[1].end; ++j) {
      const I kj = element_at<I>(p.at[1] + w.begin[1] - j * w.stride[1], w.dilation[1]);
      if (kj < 0) continue;
      for (I k = over[2].begin; k < over[2].end; ++k) {
        const I kk = element_at<I>(p.at[2] + w.begin[2] - k * w.stride[2], w.dilation[2]);
        if (kk < 0) continue;
        f((i * w.output[1] + j) * w.output[2] + k, (ki * w.kernel[1] + kj) * w.kernel[2] + kk);
      }
    }
  }
}

}  // namespace leat::cuda
