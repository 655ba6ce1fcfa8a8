// Max-pools of 2x2 windows over a plain plane of floats, for numbers of channels that are no
// multiple of 16. The bits are those of the plain loops in pool_kernel.cc.
#pragma once

#include <cstdint>

#include "ops/definitions/window.h"

namespace leat {

// True if the windows are 2x2, adjacent, and without padding. A last row or column of the input
// that no window covers is allowed.
bool is_2x2(const Window& v);

// One plane: x is [input area], y and argmax are [output area], row-major. argmax is 0 to 3 in the
// order of the rows, and may be null. A NaN counts as larger than any number. REQUIRES: is_2x2(v).
void max_pool_2x2(const Window& v, const float* x, float* y, uint8_t* argmax);
// Overwrites all of dx: inputs that are no maximum, and those that no window covers, become 0.
void max_pool_grad_2x2(const Window& v, const float* dy, const uint8_t* argmax, float* dx);

}  // namespace leat
