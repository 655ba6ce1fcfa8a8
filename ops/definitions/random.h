// The distributions of the random ops, for their definitions and their kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

enum class RandomDraw : uint8_t { normal, uniform, bernoulli };

}  // namespace leat
