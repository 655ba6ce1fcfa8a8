// Max-pools over one plane of 16 blocked channels of floats, for CPUs with AVX-512: what a training
// step spends its time in. The same bits as the plain loops of pool_kernel.cc.
#pragma once

#include <cstdint>

#include "ops/definitions/window.h"

namespace leat {

// False where this CPU (or this build) lacks AVX-512: nothing was done then. argmax may be null.
bool max_pool_avx512(const Window& v, const float* x, float* y, uint8_t* argmax);
bool max_pool_grad_avx512(const Window& v, const float* dy, const uint8_t* argmax, float* dx);

}  // namespace leat
