#include "ops/cpu/pool_plain.h"

#include <algorithm>

#include "ops/cpu/vectorize.h"

namespace leat {
namespace {

// Compares element k of the window with the largest so far; a NaN replaces any number.
LEAT_INLINE void add(float x, int32_t k, float& best, int32_t& where) {
  const bool better = (x > best) | (x != x);
  best = better ? x : best;
  where = better ? k : where;
}

// One row of outputs from two rows of inputs. The positions are int32_t, as wide as a float, so
// that both selections become vectors of one width; the caller narrows them.
LEAT_VECTOR_CLONES void max_row(const float* above, const float* below, int64_t n, float* y,
                                int32_t* where) {
  for (int64_t i = 0; i < n; ++i) {
    float best = above[2 * i];
    int32_t at = 0;
    add(above[2 * i + 1], 1, best, at);
    add(below[2 * i], 2, best, at);
    add(below[2 * i + 1], 3, best, at);
    y[i] = best;
    where[i] = at;
  }
}

// A sum begins with + 0: -0 becomes 0. The general loops add dy to a zero.
LEAT_VECTOR_CLONES void grad_row(const float* dy, const uint8_t* argmax, int64_t n, float* above,
                                 float* below) {
  for (int64_t i = 0; i < n; ++i) {
    const float grad = dy[i] + 0.0f;
    const int32_t where = argmax[i];
    above[2 * i] = where == 0 ? grad : 0.0f;
    above[2 * i + 1] = where == 1 ? grad : 0.0f;
    below[2 * i] = where == 2 ? grad : 0.0f;
    below[2 * i + 1] = where == 3 ? grad : 0.0f;
  }
}

}  // namespace

// The kernels for these windows read no padding. An input may have a last row or column that no
// window covers.
bool is_2x2(const Window& v) {
  return v.input[0] == 1 && v.output[0] == 1 && v.kernel[0] == 1 && v.kernel[1] == 2 &&
         v.kernel[2] == 2 && v.stride[1] == 2 && v.stride[2] == 2 && v.dilation[1] == 1 &&
         v.dilation[2] == 1 && v.begin[1] == 0 && v.begin[2] == 0 &&
         v.output[1] * 2 <= v.input[1] && v.output[2] * 2 <= v.input[2];
}

void max_pool_2x2(const Window& v, const float* x, float* y, uint8_t* argmax) {
  // Rows are computed in strips, for which the positions fit a small array on the stack.
  constexpr int64_t kStrip = 128;
  int32_t where[kStrip];
  for (int64_t row = 0; row < v.output[1]; ++row) {
    const float *above = x + 2 * row * v.input[2], *below = above + v.input[2];
    for (int64_t begin = 0; begin < v.output[2]; begin += kStrip) {
      const int64_t n = std::min(kStrip, v.output[2] - begin), to = row * v.output[2] + begin;
      max_row(above + 2 * begin, below + 2 * begin, n, y + to, where);
      if (argmax) std::copy_n(where, n, argmax + to);
    }
  }
}

void max_pool_grad_2x2(const Window& v, const float* dy, const uint8_t* argmax, float* dx) {
  // Inputs that no window covers get no gradient, so they are zeroed first. All others are stored
  // below, each exactly once.
  const bool covers = v.output[1] * 2 == v.input[1] && v.output[2] * 2 == v.input[2];
  if (!covers) std::fill_n(dx, v.input_area(), 0.0f);
  for (int64_t row = 0; row < v.output[1]; ++row) {
    float* above = dx + 2 * row * v.input[2];
    grad_row(dy + row * v.output[2], argmax + row * v.output[2], v.output[2], above,
             above + v.input[2]);
  }
}

}  // namespace leat
