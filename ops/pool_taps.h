// Which elements of a plane each window of a pool sees.
#pragma once

#include <algorithm>

#include "ops/vectorize.h"
#include "ops/window.h"

namespace leat {

// Elements [begin, end) of the kernel that are inside the input, for one output along one axis.
struct Taps {
  int64_t start = 0;  // the input of element 0
  int64_t begin = 0, end = 0;
};

LEAT_INLINE Taps taps_of(const Window& v, size_t axis, int64_t output) {
  Taps t;
  t.start = output * v.stride[axis] - v.begin[axis];
  const int64_t step = v.dilation[axis];
  t.begin = t.start >= 0 ? 0 : (-t.start + step - 1) / step;
  t.end = t.start >= v.input[axis]
              ? 0
              : std::min(v.kernel[axis], (v.input[axis] - 1 - t.start) / step + 1);
  return t;
}

struct WindowTaps {
  Taps axis[3];
};

// Calls f(element of the kernel, position in the plane) for each element of one window, in order.
template <typename F>
LEAT_INLINE void for_taps(const Window& v, const WindowTaps& t, F&& f) {
  for (int64_t i = t.axis[0].begin; i < t.axis[0].end; ++i) {
    for (int64_t j = t.axis[1].begin; j < t.axis[1].end; ++j) {
      const int64_t row =
          (t.axis[0].start + i * v.dilation[0]) * v.input[1] + t.axis[1].start + j * v.dilation[1];
      const int64_t base = row * v.input[2] + t.axis[2].start,
                    k = (i * v.kernel[1] + j) * v.kernel[2];
      for (int64_t l = t.axis[2].begin; l < t.axis[2].end; ++l) f(k + l, base + l * v.dilation[2]);
    }
  }
}

// Calls f(index of the output, its taps) for each output of a plane, in order.
template <typename F>
LEAT_INLINE void for_windows(const Window& v, F&& f) {
  int64_t at = 0;
  WindowTaps t;
  for (int64_t i = 0; i < v.output[0]; ++i) {
    t.axis[0] = taps_of(v, 0, i);
    for (int64_t j = 0; j < v.output[1]; ++j) {
      t.axis[1] = taps_of(v, 1, j);
      for (int64_t l = 0; l < v.output[2]; ++l, ++at) {
        t.axis[2] = taps_of(v, 2, l);
        f(at, t);
      }
    }
  }
}

// By how much a window's sum is divided.
LEAT_INLINE int64_t window_count(const Window& v, const WindowTaps& t, bool count_pads) {
  int64_t count = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    const Taps& taps = t.axis[axis];
    const int64_t room = v.input[axis] + v.end[axis] - taps.start;  // up to the end of the padding
    count *= count_pads ? std::min(v.kernel[axis], (room + v.dilation[axis] - 1) / v.dilation[axis])
                        : std::max<int64_t>(0, taps.end - taps.begin);
  }
  return std::max<int64_t>(1, count);
}

}  // namespace leat
