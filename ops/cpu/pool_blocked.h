// Max-pools over one plane of 16 blocked channels of floats, for CPUs with AVX-512. Training steps
// spend most of their pooling time here. The bits are those of the plain loops in pool_kernel.cc.
#pragma once

#include <cstdint>

#include "ops/definitions/window.h"

namespace leat {

// x and y are one plane each, [input area, 16] and [output area, 16]. argmax has the form of y and
// holds the number of the maximum's element in its window; it may be null in max_pool_avx512().
// Both return false, without any effect, if this CPU (or this build) lacks AVX-512; the caller then
// runs its plain loops. REQUIRES: a window of at most 256 elements, whose numbers fit a byte.
bool max_pool_avx512(const Window& v, const float* x, float* y, uint8_t* argmax);
// Overwrites all of dx: each input gets the sum of the dy of the windows whose maximum it was, in
// the order of the outputs, and 0 if there is none.
bool max_pool_grad_avx512(const Window& v, const float* dy, const uint8_t* argmax, float* dx);

}  // namespace leat
