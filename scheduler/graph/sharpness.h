// Sharpness-aware minimization, `optimizer.sam`. With w the weights, g the gradients there, all of
// them together, and r the radius:
//
//   the step updates w by the gradients at w + r * g / (|g| + 1e-12)
//
// Source: Foret et al., Sharpness-Aware Minimization (2021). The norm is over the sum of all
// shards, so that the step is the same on any number of workers. A step costs two.
#pragma once

#include <vector>

#include "ops/graph/builder.h"
#include "scheduler/graph/loss_scale.h"
#include "scheduler/graph/updates.h"

namespace leat {

// Returns the gradients there, of the shard's part of the scaled loss as `gradients` are here. The
// loss is computed once more, from the same rows with the same random numbers. Errors are the
// builder's.
std::vector<ValueId> gradients_nearby(GraphBuilder& g, const TrainSpec& spec,
                                      const std::vector<Trained>& trained,
                                      const std::vector<ValueId>& gradients, ValueId loss,
                                      LossScale& loss_scale);

}  // namespace leat
