// The nodes that scale a loss, and skip the steps whose gradients are not finite. Private to
// train_graph.cc.
#pragma once

#include <vector>

#include "ops/graph/builder.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// Adds nodes with a builder, whose errors count. Without a scale it adds none.
//
//   LossScale scale(g, spec);
//   gradients of scale.scaled(loss) -> AllReduce -> scale.unscaled(sum) -> Apply...
//   LEAT_RETURN_IF_ERROR(scale.finish(job));
class LossScale {
 public:
  // The builder outlives it.
  LossScale(GraphBuilder& g, const LossScaleSpec& spec);

  // The loss times the scale.
  ValueId scaled(ValueId loss) { return times(loss, scale_); }
  // A gradient of the scaled loss, summed over the shards, divided by the scale.
  ValueId unscaled(ValueId gradient) { return times(gradient, inverse_); }
  // With a dynamic scale: guards all writes of the job, adds those of the scale to its targets, and
  // both fetches (make_train_graph()). unimplemented for a write that cannot be skipped.
  // REQUIRES: the job has its other targets and fetches.
  Status finish(JobGraph& job);

 private:
  ValueId times(ValueId value, ValueId factor);
  void read_state();
  ValueId variable(std::string_view name);
  void update(JobGraph& job, ValueId guard);

  GraphBuilder& g_;
  const LossScaleSpec spec_;
  ValueId scale_ = kNone, inverse_ = kNone;  // scalars of f32
  // Dynamic: the variables, and their values in this step.
  ValueId exponent_variable_ = kNone, good_variable_ = kNone;
  ValueId exponent_ = kNone, good_ = kNone;
};

}  // namespace leat
