// What the ops that write variables share: the check that a value fits its variable, and tiles over
// elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Inputs [0, variables) must be resources of one dtype and shape (variables, not queues).
Status expect_equal_variables(InferContext& ctx, int variables);

// Input `operand` must have the dtype of variable 0, and its shape; a symbolic size passes here and
// is checked again by check_fits() when it is known.
Status expect_fits(InferContext& ctx, int operand);

// The same on concrete types, when a kernel is made.
Status check_fits(const KernelSetup& setup, int operand);

// The optional output "done": a token, for control edges.
Status infer_done(InferContext& ctx);

// Elements [begin, end) of one tile of an op that treats every element alone.
struct ElementRange {
  int64_t begin, end;
};
inline constexpr int64_t kElementsPerTile = 32 * 1024;
inline int element_tiles(int64_t elements) { return tile_count(elements, kElementsPerTile); }
inline ElementRange element_range(int64_t elements, int tile) {
  const int64_t begin = tile * kElementsPerTile;
  return {begin, std::min(elements, begin + kElementsPerTile)};
}

inline constexpr int kWriteGuard = 2;  // the input of the ops that write

}  // namespace leat
