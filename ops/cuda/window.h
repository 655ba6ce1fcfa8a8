// The window of a pool or a convolution, as kernels see it: Window in ops/definitions/window.h.
#pragma once

#include <cstdint>

#include "devices/base/inline.h"

namespace leat::cuda {

struct WindowShape {
  int64_t input[3] = {1, 1, 1}, output[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, begin[3] = {}, end[3] = {};

  LEAT_INLINE int64_t input_area() const { return input[0] * input[1] * input[2]; }
  LEAT_INLINE int64_t output_area() const { return output[0] * output[1] * output[2]; }
  LEAT_INLINE int64_t kernel_area() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// a / b, of numbers that are not negative. Divisions of 64 bits take several times as long as those
// of 32.
LEAT_INLINE int64_t quotient(int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return (x | y) >> 32 == 0
             ? static_cast<int64_t>(static_cast<uint32_t>(x) / static_cast<uint32_t>(y))
             : a / b;
}

// A place on the three axes, of its row-major number.
struct Place {
  int64_t at[3];
};
LEAT_INLINE Place place_of(const int64_t (&sizes)[3], int64_t number) {
  const int64_t row = quotient(number, sizes[2]);
  const int64_t plane = sizes[0] == 1 ? 0 : quotient(row, sizes[1]);
  return {{plane, row - plane * sizes[1], number - row * sizes[2]}};
}
// GPUs take long for a division: most windows have steps of 1.
LEAT_INLINE int64_t in_steps(int64_t distance, int64_t step) {
  return step == 1 ? distance : quotient(distance, step);
}

// The numbers from `begin` to `end`, exclusive.
struct Range {
  int64_t begin, end;
};

// The elements of the kernel that are inside the input, for one output along one axis.
LEAT_INLINE Range taps_of(const WindowShape& w, int axis, int64_t output) {
  const int64_t start = output * w.stride[axis] - w.begin[axis], step = w.dilation[axis];
  const int64_t begin = start >= 0 ? 0 : in_steps(-start + step - 1, step);
  const int64_t last = start >= w.input[axis] ? 0 : in_steps(w.input[axis] - 1 - start, step) + 1;
  return {begin, last < w.kernel[axis] ? last : w.kernel[axis]};
}

// Calls f(element of the kernel, position of the input) for the taps of an output, in row-major
// order.
template <typename F>
LEAT_INLINE void for_taps(const WindowShape& w, int64_t output, F f) {
  const Place o = place_of(w.output, output);
  Range taps[3];
  int64_t start[3];
  for (int axis = 0; axis < 3; ++axis) {
    taps[axis] = taps_of(w, axis, o.at[axis]);
    start[axis] = o.at[axis] * w.stride[axis] - w.begin[axis];
  }
  for (int64_t i = taps[0].begin; i < taps[0].end; ++i) {
    for (int64_t j = taps[1].begin; j < taps[1].end; ++j) {
      for (int64_t k = taps[2].begin; k < taps[2].end; ++k) {
        const int64_t row =
            (start[0] + i * w.dilation[0]) * w.input[1] + start[1] + j * w.dilation[1];
        f((i * w.kernel[1] + j) * w.kernel[2] + k, row * w.input[2] + start[2] + k * w.dilation[2]);
      }
    }
  }
}

// The outputs whose windows may cover a position of the input along one axis.
LEAT_INLINE Range outputs_over(const WindowShape& w, int axis, int64_t position) {
  const int64_t shifted = position + w.begin[axis];
  const int64_t first = shifted - (w.kernel[axis] - 1) * w.dilation[axis];
  const int64_t begin = first <= 0 ? 0 : in_steps(first + w.stride[axis] - 1, w.stride[axis]);
  const int64_t end = in_steps(shifted, w.stride[axis]) + 1;
  return {begin, end < w.output[axis] ? end : w.output[axis]};
}

// The element of the kernel at a distance from the window's begin; -1 if it is between two.
LEAT_INLINE int64_t element_at(int64_t distance, int64_t dilation) {
  if (dilation == 1) return distance;
  const int64_t element = quotient(distance, dilation);
  return element * dilation == distance ? element : -1;
}

// Calls f(output, element of the kernel) for each window that covers an input, in the row-major
// order of the outputs.
template <typename F>
LEAT_INLINE void for_windows_over(const WindowShape& w, int64_t input, F f) {
  const Place p = place_of(w.input, input);
  Range over[3];
  for (int axis = 0; axis < 3; ++axis) over[axis] = outputs_over(w, axis, p.at[axis]);
  for (int64_t i = over[0].begin; i < over[0].end; ++i) {
    const int64_t ki = element_at(p.at[0] + w.begin[0] - i * w.stride[0], w.dilation[0]);
    if (ki < 0) continue;
    for (int64_t j = over[1].begin; j < over[1].end; ++j) {
      const int64_t kj = element_at(p.at[1] + w.begin[1] - j * w.stride[1], w.dilation[1]);
      if (kj < 0) continue;
      for (int64_t k = over[2].begin; k < over[2].end; ++k) {
        const int64_t kk = element_at(p.at[2] + w.begin[2] - k * w.stride[2], w.dilation[2]);
        if (kk < 0) continue;
        f((i * w.output[1] + j) * w.output[2] + k, (ki * w.kernel[1] + kj) * w.kernel[2] + kk);
      }
    }
  }
}

}  // namespace leat::cuda
