// The elements of a plane that each window of a pool covers.
#pragma once

#include <algorithm>

#include "ops/cpu/vectorize.h"
#include "ops/definitions/window.h"

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

// Iterates over the elements of one window that are inside the input, in order.
class TapIterator {
 public:
  LEAT_INLINE TapIterator(const Window& v, const WindowTaps& t)
      : v_(v), t_(t), i_(t.axis[0].begin), j_(t.axis[1].begin), l_(t.axis[2].begin) {
    if (j_ >= t.axis[1].end || l_ >= t.axis[2].end) i_ = t.axis[0].end;
    row();
  }
  LEAT_INLINE bool valid() const { return i_ < t_.axis[0].end; }
  LEAT_INLINE void next() {
    if (++l_ < t_.axis[2].end) return;
    l_ = t_.axis[2].begin;
    if (++j_ >= t_.axis[1].end) {
      j_ = t_.axis[1].begin;
      ++i_;
    }
    row();
  }
  LEAT_INLINE int64_t element() const { return kernel_row_ + l_; }
  LEAT_INLINE int64_t position() const { return base_ + l_ * v_.dilation[2]; }  // in the plane

 private:
  LEAT_INLINE void row() {
    const int64_t row = (t_.axis[0].start + i_ * v_.dilation[0]) * v_.input[1] + t_.axis[1].start +
                        j_ * v_.dilation[1];
    base_ = row * v_.input[2] + t_.axis[2].start;
    kernel_row_ = (i_ * v_.kernel[1] + j_) * v_.kernel[2];
  }
  const Window& v_;
  const WindowTaps& t_;
  int64_t i_, j_, l_;
  int64_t base_ = 0, kernel_row_ = 0;
};

// Calls f(element of the kernel, position in the plane) for each element of the window inside the
// input.
template <typename F>
LEAT_INLINE void for_taps(const Window& v, const WindowTaps& t, F&& f) {
  for (TapIterator tap(v, t); tap.valid(); tap.next()) f(tap.element(), tap.position());
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

// The divisor of a window's sum.
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
