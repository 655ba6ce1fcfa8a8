// The exponential moving average of a job's weights, `optimizer.ema`: with the factor f, and w_k
// the weights after step k,
//
//   a_0 = w_0;  a_k = f * a_(k-1) + (1 - f) * w_k
//
// The variables of step k hold a_(k-1), since a step reads the weights before it writes them:
// a user of the average takes in w_k. The average of a variable is the variable
// kOptimizerPrefix, its name, "/ema"; kAverageSteps has the number of steps, 0 before an average
// has begun.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/graph/train_graph.h"
#include "scheduler/graph/updates.h"

namespace leat {

// Adds the nodes of a step, which become targets of the job. Errors are the builder's.
void add_averages(GraphBuilder& g, const TrainSpec& spec, const std::vector<Trained>& trained,
                  JobGraph& job);

// Replaces the Reads of these variables of a model by their averages.
Result<Graph> read_averages(Graph model, const std::vector<std::string>& variables, double factor);

}  // namespace leat
