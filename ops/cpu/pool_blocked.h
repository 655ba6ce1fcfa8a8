// Max-pools over one plane of 16 blocked channels of floats, for CPUs with AVX-512. Training steps
// spend most of their pooling time here. The bits are those of the plain loops in pool_kernel.cc.
#pragma once

#include <cstdint>

#include "ops/definitions/window.h"

namespace leat {

// Returns false, without any effect, if this CPU (or this build) lacks AVX-512. argmax may be null.
bool max_pool_avx512(const Window& v, const float* x, float* y, uint8_t* argmax);
bool max_pool_grad_avx512(const Window& v, const float* dy, const uint8_t* argmax, float* dx);

}  // namespace leat
