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
// An optimizer with slots passes their number + 1, since its kernel walks the variable and the
// slots with one index. invalid_argument, with the node as its subject.
Status expect_equal_variables(InferContext& ctx, int variables);

// Checks that input `operand` has the dtype and the shape of variable 0. A symbolic size passes;
// check_fits() checks it when it is known.
Status expect_fits(InferContext& ctx, int operand);

// The same check on concrete types, when a kernel is made.
Status check_fits(const KernelSetup& setup, int operand);

// Infers the optional output 0, "done": a token, for nodes that must run after the write. Always
// ok.
Status infer_done(InferContext& ctx);

// The elements [begin, end) of one tile of an op that computes each element independently. The
// range is empty for the one tile of a tensor without elements.
struct ElementRange {
  int64_t begin, end;
};
// 128 KiB of f32. The tiles follow from the number of elements alone.
inline constexpr int64_t kElementsPerTile = 32 * 1024;
// The number of tiles, at least 1.
inline int element_tiles(int64_t elements) { return tile_count(elements, kElementsPerTile); }
inline ElementRange element_range(int64_t elements, int tile) {
  const int64_t begin = tile * kElementsPerTile;
  return {begin, std::min(elements, begin + kElementsPerTile)};
}

// The guard's index among the inputs of leat.Initialize, Assign and AssignAdd (see guard.h). The
// optimizers have it behind their other inputs.
inline constexpr int kWriteGuard = 2;

}  // namespace leat
