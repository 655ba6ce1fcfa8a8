#include "ops/pool_blocked.h"

#include <cstring>
#include <limits>

#include "ops/pool_taps.h"

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are never passed between functions
#endif

namespace leat {
namespace {

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

LEAT_INLINE Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
LEAT_INLINE void store(float* to, Floats v) { std::memcpy(to, &v, sizeof(v)); }
LEAT_INLINE Floats all(float value) { return value - Floats{}; }

// The largest so far and where it was. The first element wins against nothing.
struct Best {
  Floats value = all(-std::numeric_limits<float>::infinity());
  Ints where = {};

  LEAT_INLINE void first(Floats x, int32_t element) {
    value = x;
    where = element - Ints{};
  }
  LEAT_INLINE void add(Floats x, int32_t element) {
    const Ints better = (x > value) | (x != x);
    value = better ? x : value;
    where = better ? element - Ints{} : where;
  }
  LEAT_INLINE void write(float* y, uint8_t* argmax) const {
    store(y, value);
    if (!argmax) return;
    const Bytes bytes = __builtin_convertvector(where, Bytes);
    std::memcpy(argmax, &bytes, sizeof(bytes));
  }
};

// Windows of 2x2 side by side that cover the plane but for an odd row or column at its end.
bool is_2x2(const Window& v) {
  return v.input[0] == 1 && v.kernel[0] == 1 && v.kernel[1] == 2 && v.kernel[2] == 2 &&
         v.stride[1] == 2 && v.stride[2] == 2 && v.dilation[1] == 1 && v.dilation[2] == 1 &&
         v.begin[1] == 0 && v.begin[2] == 0 && v.output[1] * 2 <= v.input[1] &&
         v.output[2] * 2 <= v.input[2] && v.output[0] == 1;
}

LEAT_INLINE void max_2x2(const Window& v, const float* x, float* y, uint8_t* argmax) {
  const int64_t row = v.input[2] * kLanes, outputs = v.output[2] * kLanes;
  for (int64_t i = 0; i < v.output[1]; ++i) {
    const float *above = x + 2 * i * row, *below = above + row;
    for (int64_t j = 0; j < outputs; j += kLanes) {
      Best best;
      best.first(load(above + 2 * j), 0);
      best.add(load(above + 2 * j + kLanes), 1);
      best.add(load(below + 2 * j), 2);
      best.add(load(below + 2 * j + kLanes), 3);
      best.write(y + i * outputs + j, argmax ? argmax + i * outputs + j : nullptr);
    }
  }
}

LEAT_INLINE Floats share_of(Ints where, int32_t element, Floats grad) {
  return where == element ? grad : Floats{};
}
LEAT_INLINE Ints load_positions(const uint8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(bytes, Ints);
}

// Each input is in one window, so it is stored once and not added to; -0 becomes 0 as in a sum.
LEAT_INLINE void max_grad_2x2(const Window& v, const float* dy, const uint8_t* argmax, float* dx) {
  const int64_t row = v.input[2] * kLanes, outputs = v.output[2] * kLanes;
  if (v.output[1] * 2 < v.input[1] || v.output[2] * 2 < v.input[2])
    std::fill_n(dx, v.input_area() * kLanes, 0.0f);
  for (int64_t i = 0; i < v.output[1]; ++i) {
    float *above = dx + 2 * i * row, *below = above + row;
    for (int64_t j = 0; j < outputs; j += kLanes) {
      const Floats grad = load(dy + i * outputs + j) + Floats{};
      const Ints where = load_positions(argmax + i * outputs + j);
      store(above + 2 * j, share_of(where, 0, grad));
      store(above + 2 * j + kLanes, share_of(where, 1, grad));
      store(below + 2 * j, share_of(where, 2, grad));
      store(below + 2 * j + kLanes, share_of(where, 3, grad));
    }
  }
}

LEAT_INLINE void max_any(const Window& v, const float* x, float* y, uint8_t* argmax) {
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    Best best;
    bool first = true;
    for_taps(v, t, [&](int64_t k, int64_t position) {
      const Floats value = load(x + position * kLanes);
      first ? best.first(value, static_cast<int32_t>(k)) : best.add(value, static_cast<int32_t>(k));
      first = false;
    });
    best.write(y + at * kLanes, argmax ? argmax + at * kLanes : nullptr);
  });
}

LEAT_INLINE void max_grad_any(const Window& v, const float* dy, const uint8_t* argmax, float* dx) {
  std::fill_n(dx, v.input_area() * kLanes, 0.0f);
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    const Floats grad = load(dy + at * kLanes);
    const Ints where = load_positions(argmax + at * kLanes);
    for_taps(v, t, [&](int64_t k, int64_t position) {
      float* to = dx + position * kLanes;
      store(to, load(to) + share_of(where, static_cast<int32_t>(k), grad));
    });
  });
}

}  // namespace

LEAT_VECTOR_CLONES void max_pool_blocked(const Window& v, const float* x, float* y,
                                         uint8_t* argmax) {
  is_2x2(v) ? max_2x2(v, x, y, argmax) : max_any(v, x, y, argmax);
}

LEAT_VECTOR_CLONES void max_pool_grad_blocked(const Window& v, const float* dy,
                                              const uint8_t* argmax, float* dx) {
  is_2x2(v) ? max_grad_2x2(v, dy, argmax, dx) : max_grad_any(v, dy, argmax, dx);
}

LEAT_VECTOR_CLONES void average_pool_blocked(const Window& v, bool count_pads, const float* x,
                                             float* y) {
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    Floats sum = {};
    for_taps(v, t, [&](int64_t, int64_t position) { sum += load(x + position * kLanes); });
    store(y + at * kLanes, sum / static_cast<float>(window_count(v, t, count_pads)));
  });
}

LEAT_VECTOR_CLONES void average_pool_grad_blocked(const Window& v, bool count_pads, const float* dy,
                                                  float* dx) {
  std::fill_n(dx, v.input_area() * kLanes, 0.0f);
  for_windows(v, [&](int64_t at, const WindowTaps& t) {
    const Floats share =
        load(dy + at * kLanes) / static_cast<float>(window_count(v, t, count_pads));
    for_taps(v, t, [&](int64_t, int64_t position) {
      float* to = dx + position * kLanes;
      store(to, load(to) + share);
    });
  });
}

}  // namespace leat
