// The elements of a plane that each window of a pool covers. A plane is one channel of one image,
// or, in the layout channels16, 16 channels that are adjacent at each position. The functions count
// positions, so the caller multiplies by 16 there.
//
// All windows are three-dimensional (see ops/definitions/window.h); for pools over fewer axes the
// first sizes are 1. Elements of a kernel and positions of a plane are counted in row-major order.
// This order is the order of the sums of a pool, and argmax counts in it.
//
//   for_windows(v, [&](int64_t at, const WindowTaps& taps) {
//     float sum = 0;
//     for_taps(v, taps, [&](int64_t, int64_t position) { sum += x[position]; });
//     y[at] = sum / static_cast<float>(window_count(v, taps, false));
//   });
//
// Threads: any; nothing here has state beyond its object.
#pragma once

#include <algorithm>

#include "ops/cpu/vectorize.h"
#include "ops/definitions/window.h"

namespace leat {

// Elements [begin, end) of the kernel that are inside the input, for one output along one axis.
// begin >= end: none of them is, as for a window that lies in the padding alone.
struct Taps {
  // The position in the input of element 0. It is negative in the padding before the input. Element
  // k is at start + k * dilation.
  int64_t start = 0;  // the input of element 0
  int64_t begin = 0, end = 0;
};

// The taps of output number `output` along `axis`. The padding at the end needs no test of its own:
// it is whatever lies behind the input. REQUIRES: output < v.output[axis].
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

// The taps of one output along the three axes. A loop over outputs computes those of an outer axis
// once for all outputs of the inner axes.
struct WindowTaps {
  Taps axis[3];
};

// Iterates over the elements of one window that are inside the input, in row-major order. It keeps
// references to both arguments, which must outlive it. Code that cannot use a lambda (functions for
// AVX-512, whose target a lambda does not inherit) uses this class; other code uses for_taps().
//
// A window that covers no input is not valid() from the start.
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
  // The number of the element in the kernel, from 0 to kernel_area() - 1, padding included: the
  // value that argmax stores. REQUIRES: valid(), as for position().
  LEAT_INLINE int64_t element() const { return kernel_row_ + l_; }
  // The position in the plane that this element reads.
  LEAT_INLINE int64_t position() const { return base_ + l_ * v_.dilation[2]; }  // in the plane

 private:
  // Computes both counts for l_ == 0, so that a step along the last axis is one addition.
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

// Calls f(index of the output, its taps) for each output of a plane, in row-major order: the index
// counts from 0 without a gap. The taps are reused for the next output, so f must not keep a
// reference to them.
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

// The divisor of a window's sum in AveragePool. With `count_pads` (ONNX's count_include_pad) it
// counts the elements of the kernel that are inside the input or its padding; a window that
// ceil_mode lets reach beyond the padding is smaller. Otherwise it counts only those inside the
// input. It is at least 1, so that a window in the padding alone gives 0 / 1.
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
