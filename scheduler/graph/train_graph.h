// Makes the graphs of a job from its model: training (input, loss, gradients, optimizer),
// evaluation and prediction. Each graph is of one shard and has ordinary nodes only; a strategy
// makes all shards of it.
//
// All functions are pure. They return invalid_argument for a model that they cannot use.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/autocast.h"
#include "scheduler/graph/rewrite.h"
#include "scheduler/recipes/loss.h"
#include "scheduler/recipes/metric.h"
#include "scheduler/recipes/optimizer.h"
#include "scheduler/recipes/schedule.h"
#include "scheduler/recipes/transform.h"

namespace leat {

// The source of batches.
struct InputSpec {
  Attrs reader;        // attributes of leat.ReadBatch, except rows, global_batch and wrap
  double rescale = 1;  // inputs of floats are multiplied by it
  std::map<std::string, std::string> columns;  // of inputs, as `named` of bind_columns()
  std::vector<Transform> transforms = {};      // of the columns, before the model reads them
};

// A graph that brings its own training: gradients, optimizers and state. Names are those of nodes,
// or of values, whose nodes count.
struct ProgramSpec {
  std::vector<std::string> init;   // run once, after the Initialize nodes
  std::vector<std::string> step;   // run in each step; empty: all nodes that write, but for init
  std::vector<std::string> fetch;  // scalars; empty: the outputs of the graph
};

// The factor of the loss whose gradients a step computes. Gradients that are too small for float16
// come out of the backward pass that much larger, and are divided by it in float32.
//
//   fixed    initial, in every step
//   dynamic  as torch.amp.GradScaler: initial at first; a step whose gradients are not all finite
//            writes nothing, and halves it; after growth_interval other steps in a row it doubles.
//            It stays within a factor of 2^100 of its first value.
//
// The state of dynamic is in variables, which are part of a checkpoint: kLossScaleExponent and
// kLossScaleGoodSteps.
struct LossScaleSpec {
  enum class Kind : uint8_t { none, fixed, dynamic } kind = Kind::none;
  double initial = 65536;
  int64_t growth_interval = 2000;  // steps
  bool operator==(const LossScaleSpec&) const = default;
};

// All that a job file says of its training steps. The graphs, and so the weights, follow from it
// and the model alone: neither workers nor threads are in it.
struct TrainSpec {
  InputSpec input;
  LossSpec loss;
  // The other terms, if the loss is a sum: each term is a mean of its own, times its weight. The
  // accuracy and the metrics are those of the first term's output and labels.
  std::vector<LossSpec> more_losses = {};
  bool accuracy = true;
  // Of an evaluation; each has sums. Those that are `in_training` are of training steps, too.
  std::vector<MetricSpec> metrics = {};
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  int64_t global_batch = 1;
  int64_t shards = 1;  // divides global_batch
  // Of variables, losses, updates and running statistics: f32 or f64. The rest of a step computes
  // in it, too, unless autocast says otherwise.
  DType precision = DType::f32;
  AutocastSpec autocast = {};  // only with precision f32
  LossScaleSpec loss_scale = {};
  // In place of the loss, the accuracy, the optimizer and the schedule.
  std::optional<ProgramSpec> program = {};
  // Of an evaluation: the variables whose averages take the place of the weights.
  std::vector<std::string> averaged = {};
  // True for the name of a variable that is not trained. Empty: all are trained.
  std::function<bool(const std::string&)> frozen;

  // The terms of the loss, in the order of the job; one if it is no sum.
  std::vector<const LossSpec*> losses() const;
};

// A graph with the values and nodes of it that a run feeds, fetches and runs.
struct JobGraph {
  Graph graph;
  std::vector<NodeId> targets;
  std::vector<ValueId> feeds;
  std::vector<ValueId> fetches;  // as the function says that makes the graph
  Borders borders() const { return {feeds, fetches, targets}; }
};

// The graph of a training step. `model` is expanded (it has no layer nodes), in training form, and
// reads the columns of the data (bind_columns()). Each running statistic, as that of a
// BatchNormalization, becomes the mean over the shards of what each shard would write. The names of
// the optimizer's state are kOptimizerPrefix, the variable's name, and "/momentum", "/m" and so on.
// invalid_argument if the shards do not divide the global batch, if no variable is trained, or if
// the labels do not fit the output. For a program: as make_program_graph(). Fetches: "loss" (the
// mean over the global batch) and, if the spec asks for it, "accuracy"; the mean of each term if
// the loss is a sum; the metrics that are in_training; with a dynamic loss scale then "loss_scale",
// the factor of this step, and kGuard, which is NaN if the step writes nothing, and else 0.
Result<JobGraph> make_train_graph(const Graph& model, const TrainSpec& spec);

// A graph that finds which values of a step's forward pass are not finite.
struct CheckGraph {
  JobGraph job;  // fetch 0: for each of `values`, NaN if it has a NaN or an infinity, else 0
  struct Value {
    std::string name;            // "Div 'd1/quotient'": the node that makes it
    std::vector<size_t> inputs;  // the inputs of that node, as indices of `values`
  };
  std::vector<Value> values;  // in the order in which the step makes them; the last is the loss
};
// The graph writes no variable. `model` and `spec` are as for make_train_graph().
Result<CheckGraph> make_check_graph(const Graph& model, const TrainSpec& spec);
// The name of the op that made the loss not finite: the first of a chain of such values that ends
// in the loss. `finite` has one entry for each of check.values. An infinity that does not reach the
// loss, as in a mask, is no fault.
std::string first_not_finite(const CheckGraph& check, const std::vector<bool>& finite);

// The learning rate of the graph's step, counted from 0, before it is rounded to the precision. It
// is that of variables in no group. `cut`: the value of kPlateauCut.
double learning_rate_at(const TrainSpec& spec, int64_t step, double cut = 0);

// A graph that runs the model's Initialize nodes, and the nodes that a program names. Of the spec,
// only the precision and the program count. No fetches.
Result<JobGraph> make_init_graph(const Graph& model, const TrainSpec& spec);

// The graph of an evaluation step; `model` is in inference form. Step b reads batch b; rows past
// the end of the data count nothing. Fetches: the sum of the loss over the labels that count, their
// number (that of the rows, if each row has one label or the loss has no labels), and, if the spec
// asks for the accuracy, the number of correct predictions, and, with weights of classes, of labels
// without their weights; then the sums of each of the spec's metrics; then of each other term of
// the loss its sum and the number of labels that count. If a term is a mean that the model computes
// (is_mean()), no row of the batch may lie past the end.
Result<JobGraph> make_eval_graph(const Graph& model, const TrainSpec& spec);
// The variables that a training with `optimizer.ema` keeps averages of; none without it. `model` is
// in training form.
Result<std::vector<std::string>> averaged_variables(const Graph& model, const TrainSpec& spec);
// True if the loss is an output of the model without a dimension, which does not tell the losses of
// rows apart. False for a model without that output.
bool is_mean(const Graph& model, const LossSpec& loss);

// A graph that predicts `rows` rows; `model` is in inference form. Feeds: the inputs, in the order
// of the graph. Fetches: the outputs, in that order. Both have the precision. `casts`: as in
// TrainSpec.
Result<JobGraph> make_predict_graph(const Graph& model, int64_t rows, DType precision,
                                    const AutocastSpec& casts = {});

// A graph that predicts the rows of a data set; `model` is in inference form. Step b reads batch b;
// rows past the end of the data are repetitions of others. Fetch: the output that the loss of the
// spec names, for the global batch of one shard.
Result<JobGraph> make_predict_data_graph(const Graph& model, const TrainSpec& spec);

// Changes every f32 of the graph to `precision`: variables, constants, inputs and random values.
Result<Graph> convert_precision(const Graph& graph, DType precision);
// The type of the first variable of 16 bits; invalid if there is none.
DType narrow_variables(const Graph& graph);
// Changes every 16-bit float of the graph to f32: variables, constants, inputs and casts.
Graph widen(Graph graph);

// The variables of a dynamic loss scale, scalars of f32: log2(scale / initial), which begins with 0
// as the state of optimizers does, and the finite steps since the scale changed.
inline constexpr std::string_view kLossScaleExponent = "optimizer/loss_scale/exponent";
inline constexpr std::string_view kLossScaleGoodSteps = "optimizer/loss_scale/good_steps";

// The variable of a schedule that looks at epochs (Schedule::looks_at_epochs), a scalar of f64 that
// begins with 0 as the state of optimizers does: the rate of a step is divided by 1 + its value.
// The training writes it between two steps.
inline constexpr std::string_view kPlateauCut = "optimizer/plateau/cut";

}  // namespace leat
