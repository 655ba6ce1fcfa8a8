// Shared rules of the ops that write variables: the check that a value fits its variable, and tiles
// over elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Checks that inputs [0, variables) are resources of one dtype and shape (variables, not queues).
Status expect_equal_variables(InferContext& ctx, int variables);

// Checks that input `operand` has the dtype and the shape of variable 0. A symbolic size passes;
// check_fits() checks it when it is known.
Status expect_fits(InferContext& ctx, int operand);

// The same check on concrete types, when a kernel is made.
Status check_fits(const KernelSetup& setup, int operand);

// Infers the optional output "done": a token, for control edges.
Status infer_done(InferContext& ctx);

// The elements [begin, end) of one tile of an op that computes each element independently.
struct ElementRange {
  int64_t begin, end;
};
inline constexpr int64_t kElementsPerTile = 32 * 1024;
inline int element_tiles(int64_t elements) { return tile_count(elements, kElementsPerTile); }
inline ElementRange element_range(int64_t elements, int tile) {
  const int64_t begin = tile * kElementsPerTile;
  return {begin, std::min(elements, begin + kElementsPerTile)};
}

inline constexpr int kWriteGuard = 2;  // the guard's index among the inputs of ops that write

}  // namespace leat
