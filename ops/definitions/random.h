// The distributions of the random ops, for their definitions and their kernels.
//
// The numbers come from Philox, a counter-based generator (Salmon et al., "Parallel Random Numbers:
// As Easy as 1, 2, 3", 2011): element i of the global tensor is a function of the seed, the step,
// Node::source and i. The seed is the node's attribute `seed` if it has one, else the job's. No
// element depends on another, so a split of the rows over shards, tiles and threads draws the same
// bits as the whole tensor, and a repeated step draws its numbers again.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// normal: attributes `mean` and `scale`, the standard deviation. uniform: [low, high). bernoulli: 1
// with the probability that the element of the input gives, else 0; the output may be of any type.
enum class RandomDraw : uint8_t { normal, uniform, bernoulli };

// ONNX's seed is a float; each float selects a stream of its own. Whole numbers become that
// integer, and all others their bits.
inline uint64_t seed_of(double written) {
  const bool whole = written >= -9e15 && written <= 9e15 && written == std::floor(written);
  return whole ? static_cast<uint64_t>(static_cast<int64_t>(written))
               : std::bit_cast<uint64_t>(written);
}

}  // namespace leat
