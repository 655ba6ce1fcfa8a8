// The part of a training step behind the gradients: the learning rate, the bounds of gradients, and
// the update of each variable. Private to train_graph.cc.
#pragma once

#include <string>
#include <vector>

#include "ops/graph/builder.h"
#include "scheduler/graph/loss_scale.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// A variable that is trained, and the value of its one Read.
struct Trained {
  std::string name;
  ValueId variable = kNone;
  ValueId read = kNone;
  Shape shape;
  bool is_table = false;  // nothing but lookups of its rows reads it
};

// The variables that the loss is differentiated by, in the order in which the model reads them.
// invalid_argument if there are none, or if a group of the optimizer's matches no variable.
Result<std::vector<Trained>> trained_variables(const Graph& graph, const TrainSpec& spec);

// Adds the sum over the shards of each gradient, and all that the spec's optimizer does with it.
// The nodes that write become targets of the job. `gradients`: of the shard's part of the scaled
// loss, one for each of `trained`. Errors of nodes are the builder's.
void add_updates(GraphBuilder& g, const TrainSpec& spec, const std::vector<Trained>& trained,
                 const std::vector<ValueId>& gradients, LossScale& loss_scale, JobGraph& job);

}  // namespace leat
