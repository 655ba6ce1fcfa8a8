// Pools over one plane of 16 blocked channels of floats: what a training step spends its time in.
// Vectors of 16 floats, compiled for each instruction set. The same bits as the plain loops.
#pragma once

#include <cstdint>

#include "ops/window.h"

namespace leat {

// argmax may be null.
void max_pool_blocked(const Window& v, const float* x, float* y, uint8_t* argmax);
void max_pool_grad_blocked(const Window& v, const float* dy, const uint8_t* argmax, float* dx);
void average_pool_blocked(const Window& v, bool count_pads, const float* x, float* y);
void average_pool_grad_blocked(const Window& v, bool count_pads, const float* dy, float* dx);

}  // namespace leat
