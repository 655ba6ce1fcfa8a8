// Max-pools of 2x2 windows over a plain plane of floats, for numbers of channels that are no
// multiple of 16. The bits are those of the plain loops in pool_kernel.cc.
#pragma once

#include <cstdint>

#include "ops/definitions/window.h"

namespace leat {

// True if the windows are 2x2, adjacent, and without padding.
bool is_2x2(const Window& v);

// REQUIRES: is_2x2(v). argmax may be null.
void max_pool_2x2(const Window& v, const float* x, float* y, uint8_t* argmax);
void max_pool_grad_2x2(const Window& v, const float* dy, const uint8_t* argmax, float* dx);

}  // namespace leat
