#include "ops/definitions/broadcast.h"

#include <algorithm>

namespace leat {
namespace {

// The steps of an operand along the output's axes. Shapes are aligned at their last axes, as in
// numpy: an axis that the operand lacks, or where it has size 1, has step 0.
std::array<int64_t, kMaxRank> broadcast_steps(const Shape& shape, const Shape& output) {
  std::array<int64_t, kMaxRank> steps{};
  int64_t step = 1;
  const int offset = output.rank() - shape.rank();
  for (int d = shape.rank() - 1; d >= 0; --d) {
    steps[static_cast<size_t>(d + offset)] = shape[d] == 1 ? 0 : step;
    step *= shape[d];
  }
  return steps;
}

}  // namespace

BroadcastWalk broadcast_walk(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  BroadcastWalk walk;
  walk.rank = shape.rank();
  std::copy(shape.begin(), shape.end(), walk.sizes.begin());
  for (const OperandType& input : types.inputs) {
    walk.steps.push_back(input.present ? broadcast_steps(input.shape, shape)
                                       : std::array<int64_t, kMaxRank>{});
  }
  walk.steps.push_back(broadcast_steps(shape, shape));
  return walk;
}

BroadcastWalk collapsed(const BroadcastWalk& walk) {
  BroadcastWalk out;
  out.steps.resize(walk.steps.size());
  for (size_t d = 0; d < static_cast<size_t>(walk.rank); ++d) {
    if (walk.sizes[d] == 1) continue;
    const auto last = static_cast<size_t>(out.rank) - 1;
    bool merges = out.rank > 0;
    for (size_t i = 0; merges && i < walk.steps.size(); ++i) {
      merges = out.steps[i][last] == walk.steps[i][d] * walk.sizes[d];
    }
    const size_t to = merges ? last : static_cast<size_t>(out.rank++);
    out.sizes[to] = merges ? out.sizes[to] * walk.sizes[d] : walk.sizes[d];
    for (size_t i = 0; i < walk.steps.size(); ++i) out.steps[i][to] = walk.steps[i][d];
  }
  return out;
}

}  // namespace leat
