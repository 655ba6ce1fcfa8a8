// From a model to the graphs of a job: training (input, loss, gradients, optimizer), evaluation,
// prediction. What comes out is one shard's view, ordinary nodes throughout; a strategy makes all
// shards of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/rewrite.h"

namespace leat {

enum class LossKind { cross_entropy, mse };
enum class OptimizerKind { sgd, adam, adamw };
enum class ScheduleKind { constant, linear, cosine, step, exponential };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::sgd;
  double learning_rate = 0.01;
  double weight_decay = 0;
  double momentum = 0;  // sgd
  bool nesterov = false;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-8;
  bool lazy = false;  // of variables that are looked up by rows and nothing else
};

// Factors of the learning rate over t, the steps since the warm-up.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::constant;
  int64_t warmup_steps = 0;  // the factor climbs from 1/warmup_steps to 1
  int64_t decay_steps = 0;   // linear, cosine, exponential
  double alpha = 0;
  int64_t step_size = 0;
  double gamma = 0.1;
  double decay_rate = 0;
};

// Where batches come from: attributes of leat.ReadBatch but for rows, global_batch, wrap.
struct InputSpec {
  Attrs reader;
  double rescale = 1;  // features are multiplied by it
};

struct TrainSpec {
  InputSpec input;
  LossKind loss = LossKind::cross_entropy;
  bool accuracy = true;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  int64_t global_batch = 1;
  int64_t shards = 1;  // divides global_batch
  DType precision = DType::f32;
  std::function<bool(const std::string&)> frozen;  // variables that are not trained; empty: none
};

// A graph and what to run of it.
struct JobGraph {
  Graph graph;
  std::vector<NodeId> targets;
  std::vector<ValueId> feeds;
  std::vector<ValueId> fetches;  // see each function
  Borders borders() const { return {feeds, fetches, targets}; }
};

// `model` is expanded (no layer nodes), in training form, with one input and one output. Fetches:
// "loss" (mean over the global batch) and, if asked for, "accuracy".
Result<JobGraph> make_train_graph(const Graph& model, const TrainSpec& spec);

// A graph that tells which values of a step's forward pass are not finite.
struct CheckGraph {
  JobGraph job;  // fetch 0: for each of `values` NaN if it has a NaN or an infinity, else 0
  struct Value {
    std::string name;            // "Div 'd1/quotient'": the node that makes it
    std::vector<size_t> inputs;  // of that node, as places in `values`
  };
  std::vector<Value> values;  // in the order in which the step makes them; the last is the loss
};
// `model` and `spec` as make_train_graph() takes them. It writes no variable.
Result<CheckGraph> make_check_graph(const Graph& model, const TrainSpec& spec);
// The op that made the loss not finite: the first of a chain of such values that ends in the loss.
// `finite` is indexed by value. Infinities that do not reach the loss, as in a mask, are no fault.
std::string first_not_finite(const CheckGraph& check, const std::vector<bool>& finite);

// The learning rate of the graph's step, from 0, before it is rounded to the precision.
double learning_rate_at(const TrainSpec& spec, int64_t step);

// Runs the model's Initialize nodes. No fetches.
Result<JobGraph> make_init_graph(const Graph& model, DType precision);

// `model` in inference form. Step b reads batch b; rows past the end count nothing. Fetches: sums
// over the rows of the loss and of correct predictions, and the number of rows.
Result<JobGraph> make_eval_graph(const Graph& model, const TrainSpec& spec);

// `model` in inference form, for `rows` rows. Feed 0: the input. Fetch 0: the output.
Result<JobGraph> make_predict_graph(const Graph& model, int64_t rows, DType precision);

// Every float (f32) of the graph made `precision`: variables, constants, inputs, random values.
Result<Graph> convert_precision(const Graph& graph, DType precision);

// Names of state that is not part of the model's weights start so.
inline constexpr std::string_view kOptimizerPrefix = "optimizer/";

}  // namespace leat
