#include "scheduler/graph/train_graph.h"

#include <algorithm>
#include <deque>
#include <map>

#include "devices/base/text.h"
#include "ops/definitions/input.h"
#include "ops/definitions/row_shape.h"
#include "ops/graph/builder.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/autocast.h"
#include "scheduler/graph/batch_loss.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/graph/loss_scale.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/program_graph.h"
#include "scheduler/graph/read_batch.h"
#include "scheduler/graph/sharpness.h"
#include "scheduler/graph/updates.h"
#include "scheduler/graph/weight_average.h"
#include "scheduler/recipes/expression.h"
#include "scheduler/recipes/metric_nodes.h"

namespace leat {
namespace {

// Copies the model with its inputs replaced by those of `make_inputs(builder)` and its Initialize
// nodes left out.
struct Copied {
  Graph graph;
  std::vector<ValueId> outputs;  // as the model has them
  std::vector<NodeId> effects;   // writes that every step does, such as running statistics
};

using MakeInputs = std::function<std::vector<ValueId>(GraphBuilder&)>;

Result<Copied> copy_model(const Graph& model, const MakeInputs& make_inputs) {
  LEAT_ASSIGN_OR_RETURN(const auto order, model.topological_order());
  Rewriter rewriter(model);
  Graph& to = rewriter.to();
  {
    // The inputs come before all nodes, because their copies may read them.
    GraphBuilder builder(to);
    const std::vector<ValueId> made = make_inputs(builder);
    LEAT_RETURN_IF_ERROR(builder.status());
    for (size_t i = 0; i < made.size(); ++i) rewriter.map_value(model.inputs()[i], made[i]);
  }
  Copied out{Graph(model.catalogue()), {}, {}};
  const OpDef* all_reduce = model.catalogue().find("leat.AllReduce");
  for (NodeId id : order) {
    const Node& node = model.node(id);
    // The variables have their first values already: make_init_graph() has the nodes that write
    // them.
    if (is_op(node, "leat.Initialize")) continue;
    // A shard's write (of running statistics) becomes the mean over the shards.
    if (is_op(node, "leat.Assign") || is_op(node, "leat.AssignAdd")) {
      const ValueId value = rewriter.value(node.inputs[1]);
      // Only this copy reads the mean. Other readers of the value go on with the shard's own one.
      const NodeId mean = rewriter.add(*all_reduce, {value}, {{"op", std::string("mean")}}, 1);
      const ValueId restored = node.inputs[1];
      rewriter.map_value(restored, to.node(mean).outputs[0]);
      const NodeId made = rewriter.copy(id);
      rewriter.map_value(restored, value);
      out.effects.push_back(made);
      continue;
    }
    const NodeId made = rewriter.copy(id);
    to.node(made).source = id;  // random numbers belong to the model's node
    if (!node.op->writes.empty()) out.effects.push_back(made);
  }
  for (const ValueId output : model.outputs()) out.outputs.push_back(rewriter.value(output));
  Borders none;
  LEAT_ASSIGN_OR_RETURN(out.graph, rewriter.finish(none));
  return out;
}

ValueId all_reduce(GraphBuilder& g, ValueId value, std::string name) {
  return g.named(g.op("leat.AllReduce", {value}), std::move(name));
}

Status check_spec(const TrainSpec& spec) {
  if (spec.shards < 1 || spec.global_batch < 1 || spec.global_batch % spec.shards != 0) {
    return invalid_argument(cat("global batch: expected a multiple of the shards (", spec.shards,
                                "), received ", spec.global_batch));
  }
  return {};
}

// A term of the loss: what it compares.
struct AttachedTerm {
  BatchValues values;
  ClassLayout layout;
};

// The model with its inputs read from the data set, at the given precision.
struct Attached {
  Graph graph;
  std::vector<NodeId> effects;
  std::vector<AttachedTerm> terms;  // those of the loss
};

// Lets the model compute in 16 bits, if the spec says so.
Status cast_model(Attached& attached, const AutocastSpec& spec) {
  if (!spec.enabled()) return {};
  std::vector<ValueId*> all;
  for (AttachedTerm& term : attached.terms) {
    BatchLabels& labels = term.values.labels;
    for (ValueId* value : {&term.values.output, &labels.labels, &labels.input_lengths,
                           &labels.label_lengths, &term.values.weights}) {
      if (*value != kNone) all.push_back(value);
    }
  }
  Borders borders;
  borders.targets = attached.effects;
  for (const ValueId* value : all) borders.fetches.push_back(*value);
  LEAT_ASSIGN_OR_RETURN(attached.graph, autocast(std::move(attached.graph), borders, spec));
  attached.effects = borders.targets;
  auto next = borders.fetches.begin();
  for (ValueId* value : all) *value = *next++;
  return {};
}

// The place of the classes in the output of a term. `labels`: the column, behind the transforms.
Result<ClassLayout> layout_of_term(const LossSpec& loss, const ColumnInfo& labels,
                                   const SymbolicShape& output) {
  if (loss.has_class_labels() && is_float(labels.dtype)) {
    return invalid_argument(
        cat("column '", labels.name, "': expected classes as integers, received ", labels.dtype,
            labels.shape, " behind the transforms; the loss {name: cross_entropy, soft_labels: ",
            "true} takes shares of classes"));
  }
  return layout_of(loss, labels, output);
}

Result<Attached> attach_input(const Graph& model, const TrainSpec& spec, bool wrap) {
  LEAT_RETURN_IF_ERROR(check_spec(spec));
  LEAT_ASSIGN_OR_RETURN(const Graph typed, convert_precision(model, spec.precision));
  const std::vector<const LossSpec*> losses = spec.losses();
  LEAT_ASSIGN_OR_RETURN(const ModelInputs inputs, bind_inputs(typed, spec, losses, wrap));
  Batch batch;
  LEAT_ASSIGN_OR_RETURN(Copied copied, copy_model(typed, [&](GraphBuilder& g) {
                          batch = read_batch(g, spec, inputs, wrap);
                          return batch.inputs;
                        }));
  const auto& outputs = typed.outputs();
  Attached out{std::move(copied.graph), std::move(copied.effects), {}};
  for (size_t i = 0; i < losses.size(); ++i) {
    LEAT_ASSIGN_OR_RETURN(const ValueId output, find_output(typed, losses[i]->output));
    const auto index = std::find(outputs.begin(), outputs.end(), output) - outputs.begin();
    out.terms.push_back(
        {{copied.outputs[static_cast<size_t>(index)], batch.labels[i], batch.weights}, {}});
    if (losses[i]->labels() != Labels::classes) continue;
    LEAT_ASSIGN_OR_RETURN(out.terms.back().layout,
                          layout_of_term(*losses[i], inputs.transformed[*inputs.labels[i].labels],
                                         typed.value(output).type.shape));
  }
  LEAT_RETURN_IF_ERROR(cast_model(out, spec.autocast));
  return out;
}

// The nodes of each term. `spec` and `attached` outlive them.
std::deque<BatchLoss> batch_losses(GraphBuilder& g, const TrainSpec& spec,
                                   const Attached& attached) {
  std::deque<BatchLoss> terms;
  const std::vector<const LossSpec*> losses = spec.losses();
  for (size_t i = 0; i < losses.size(); ++i)
    terms.emplace_back(g, spec, *losses[i], attached.terms[i].layout, attached.terms[i].values);
  return terms;
}

// 1 / the labels that count in the global batch.
ValueId scale_of(GraphBuilder& g, const TrainSpec& spec, BatchLoss& loss) {
  if (!loss.counts_labels()) {
    return g.scalar(spec.precision, 1.0 / static_cast<double>(spec.global_batch * loss.per_row()));
  }
  // All labels of a batch may be ignored. With weights of classes the labels may count less than 1.
  const ValueId one = g.scalar(spec.precision, 1);
  const ValueId least = loss.weighs_labels() ? g.scalar(spec.precision, 1e-30) : one;
  return g.op("Div", {one, g.op("Max", {all_reduce(g, loss.count(), "labels"), least})});
}

// The sum of values, each times the weight of its term.
ValueId weighted_sum(GraphBuilder& g, const TrainSpec& spec, const std::vector<ValueId>& terms) {
  const std::vector<const LossSpec*> losses = spec.losses();
  ValueId total = kNone;
  for (size_t i = 0; i < terms.size(); ++i) {
    ValueId term = terms[i];
    if (losses[i]->weight != 1)
      term = g.op("Mul", {term, g.scalar(spec.precision, losses[i]->weight)});
    total = total == kNone ? term : g.op("Add", {total, term});
  }
  return total;
}

// 1 / the labels of the global batch, of which each counts 1 whatever the weight of its class is.
ValueId share_of_labels(GraphBuilder& g, const TrainSpec& spec, BatchLoss& loss) {
  const ValueId one = g.scalar(spec.precision, 1);
  return g.op("Div", {one, g.op("Max", {all_reduce(g, loss.labels(), "all labels"), one})});
}

// The nodes that `value` needs, producers first; its own is the last.
Result<std::vector<NodeId>> before(const Graph& graph, ValueId value) {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  std::vector<bool> needed(graph.nodes(), false);
  const auto need = [&](ValueId v) {
    if (v != kNone && graph.value(v).producer != kNone) needed[graph.value(v).producer] = true;
  };
  need(value);
  std::vector<NodeId> nodes;
  // Backwards, so that all readers of a node have been seen before the node itself.
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    if (!needed[*id]) continue;
    for (const ValueId input : graph.node(*id).inputs) need(input);
    nodes.push_back(*id);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

// True for the values that can become infinite or NaN.
bool is_number(const ValueType& type, DType precision) {
  return type.kind == ValueKind::tensor && (type.dtype == precision || is_16bit_float(type.dtype));
}

// "Div 'd1/quotient'", "variable 'd1/kernel'".
std::string named(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!is_op(node, "leat.Read")) return graph.describe_node(id);
  const Node& variable = graph.node(graph.value(node.inputs[0]).producer);
  return cat("variable '", attr_string(variable.attrs, "name"), "'");
}

// Fetches the sums of the spec's metrics, or the rows of those that gather. Each host keeps those
// of several steps, so there is a limit.
Status add_metrics(GraphBuilder& g, const TrainSpec& spec, BatchLoss& batch, JobGraph& job) {
  constexpr int64_t kMostSums = 1 << 20;
  MetricNodes nodes(batch.nodes());
  for (const MetricSpec& metric : spec.metrics) {
    nodes.settings = &metric.settings;
    const ValueId sums = metric.recipe().sums(nodes);
    if (!g.status().ok()) return {};
    const auto shape = g.graph().value(sums).type.shape.concrete();
    if (shape && shape->elements() > kMostSums) {
      return invalid_argument(cat("metrics: ", metric.name, ": expected at most ", kMostSums,
                                  " numbers for all classes, received ", shape->elements()));
    }
    if (metric.gathers()) {
      const ValueId rows =
          g.op("leat.AllGather", {sums}, {{"axis", int64_t{0}}, {"replicas", spec.shards}});
      job.fetches.push_back(g.named(rows, cat("rows of ", metric.shown_name())));
      continue;
    }
    job.fetches.push_back(all_reduce(g, sums, cat("sums of ", metric.shown_name())));
  }
  return {};
}

// Fetches the values of the metrics that each training step has.
void add_step_metrics(GraphBuilder& g, const TrainSpec& spec, BatchLoss& batch, JobGraph& job) {
  MetricNodes nodes(batch.nodes());
  for (const MetricSpec& metric : spec.metrics) {
    if (!metric.recipe().in_training || !g.status().ok()) continue;
    nodes.settings = &metric.settings;
    const ValueId sums = all_reduce(g, metric.recipe().sums(nodes), metric.shown_name() + " sums");
    const ValueId sizes = g.constant(Tensor::of<int64_t>({2}, {1, 1}));
    const auto parts = g.ops("Split", {sums, sizes}, {{"axis", int64_t{0}}}, 2);
    // All labels of a batch may be ignored.
    const ValueId count = g.op("Max", {parts[1], nodes.number(1)});
    const ValueId value = nodes.reshape(g.op("Div", {parts[0], count}), {});
    // As wide as the loss, so that the log has all of its digits.
    const ValueId rounded =
        g.op("Cast", {value}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
    job.fetches.push_back(g.named(rounded, metric.shown_name()));
  }
}

}  // namespace

std::vector<const LossSpec*> TrainSpec::losses() const {
  std::vector<const LossSpec*> terms{&loss};
  for (const LossSpec& term : more_losses) terms.push_back(&term);
  return terms;
}

Result<JobGraph> make_train_graph(const Graph& model, const TrainSpec& spec) {
  if (spec.program) return make_program_graph(model, spec);
  LEAT_ASSIGN_OR_RETURN(Attached attached, attach_input(model, spec, true));
  LEAT_RETURN_IF_ERROR(check_patterns(attached.graph, spec.autocast));
  JobGraph job{std::move(attached.graph), std::move(attached.effects), {}, {}};
  GraphBuilder g(job.graph);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("attaching the input"));
  std::deque<BatchLoss> batches = batch_losses(g, spec, attached);
  BatchLoss& batch = batches[0];
  const ValueId scale = scale_of(g, spec, batch);
  // The mean over the global batch is a sum times a number that all shards have, so that it splits
  // over shards.
  std::vector<ValueId> means{g.op("Mul", {batch.sum(), scale})};
  for (size_t i = 1; i < batches.size(); ++i)
    means.push_back(g.op("Mul", {batches[i].sum(), scale_of(g, spec, batches[i])}));
  const ValueId loss = weighted_sum(g, spec, means);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the loss"));
  LEAT_ASSIGN_OR_RETURN(const auto trained, trained_variables(job.graph, spec));
  LossScale loss_scale(g, spec.loss_scale);
  std::vector<ValueId> operands{loss_scale.scaled(loss)};
  for (const Trained& v : trained) operands.push_back(v.read);
  // The gradients are of the shard's part of the loss. The AllReduce of each adds up the shards.
  auto grads = g.ops("leat.Gradients", operands, {}, static_cast<int>(trained.size()));
  if (spec.optimizer.sam > 0) grads = gradients_nearby(g, spec, trained, grads, loss, loss_scale);
  add_updates(g, spec, trained, grads, loss_scale, job);
  job.fetches.push_back(all_reduce(g, loss, "loss"));
  if (spec.accuracy) {
    const ValueId share = batch.weighs_labels() ? share_of_labels(g, spec, batch) : scale;
    job.fetches.push_back(all_reduce(g, g.op("Mul", {batch.correct(), share}), "accuracy"));
  }
  for (size_t i = 0; i < means.size() && means.size() > 1; ++i)
    job.fetches.push_back(all_reduce(g, means[i], spec.losses()[i]->shown_name()));
  add_step_metrics(g, spec, batch, job);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the optimizer"));
  LEAT_RETURN_IF_ERROR(loss_scale.finish(job));
  return job;
}

Result<CheckGraph> make_check_graph(const Graph& model, const TrainSpec& spec) {
  LEAT_ASSIGN_OR_RETURN(Attached attached, attach_input(model, spec, true));
  CheckGraph check{{std::move(attached.graph), {}, {}, {}}, {}};
  Graph& graph = check.job.graph;
  GraphBuilder g(graph);
  std::vector<ValueId> terms;
  for (BatchLoss& term : batch_losses(g, spec, attached)) terms.push_back(term.sum());
  const ValueId loss = weighted_sum(g, spec, terms);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the loss"));
  LEAT_RETURN_IF_ERROR(validate(graph));
  std::map<ValueId, size_t> places;
  std::vector<ValueId> sums;
  const ValueId one = g.constant(Tensor::of<int64_t>({1}, {1}));
  LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> nodes, before(graph, loss));
  for (const NodeId id : nodes) {
    const Node node = graph.node(id);  // adding nodes moves them
    CheckGraph::Value value{named(graph, id), {}};
    for (const ValueId input : node.inputs) {
      if (const auto found = places.find(input); found != places.end())
        value.inputs.push_back(found->second);
    }
    for (const ValueId output : node.outputs) {
      if (output == kNone || !is_number(graph.value(output).type, spec.precision)) continue;
      places[output] = check.values.size();
      check.values.push_back(value);
      // The sum of x * 0 over all elements is 0, or NaN if an x is NaN or infinite.
      const DType dtype = graph.value(output).type.dtype;
      ValueId sum = g.op("ReduceSum", {g.op("Mul", {output, g.scalar(dtype, 0)})},
                         {{"keepdims", int64_t{0}}});
      if (dtype != spec.precision)
        sum = g.op("Cast", {sum}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
      sums.push_back(g.op("Reshape", {sum, one}));
    }
  }
  // One fetch has all the sums, and one AllReduce adds them over the shards: NaN stays NaN.
  const ValueId all = g.op("Concat", sums, {{"axis", int64_t{0}}});
  check.job.fetches = {all_reduce(g, all, "sums")};
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the sums"));
  return check;
}

std::string first_not_finite(const CheckGraph& check, const std::vector<bool>& finite) {
  if (check.values.empty() || finite.size() != check.values.size() || finite.back())
    return "no value of its forward pass, done once more";
  // From the loss towards the input, as long as an input of the node is not finite either. Inputs
  // have smaller indices, so this ends.
  size_t at = check.values.size() - 1;
  for (bool found = true; found;) {
    found = false;
    for (const size_t input : check.values[at].inputs) {
      if (finite[input]) continue;
      at = input;
      found = true;
      break;
    }
  }
  return check.values[at].name;
}

double learning_rate_at(const TrainSpec& spec, int64_t step, double cut) {
  Expression factor = schedule_factor(spec.schedule, argument());
  if (find_schedule(spec.schedule.name)->looks_at_epochs) factor = factor * after_cut(cut);
  return value_of(factor, static_cast<double>(step)) * spec.optimizer.learning_rate;
}

Result<JobGraph> make_init_graph(const Graph& model, const TrainSpec& spec) {
  LEAT_ASSIGN_OR_RETURN(Graph typed, convert_precision(model, spec.precision));
  JobGraph job{std::move(typed), {}, {}, {}};
  for (NodeId id = 0; id < job.graph.nodes(); ++id) {
    if (is_op(job.graph.node(id), "leat.Initialize")) job.targets.push_back(id);
  }
  if (spec.program) {
    LEAT_ASSIGN_OR_RETURN(const auto more, program_nodes(job.graph, spec.program->init, "init"));
    for (const NodeId id : more) {
      if (std::count(job.targets.begin(), job.targets.end(), id) == 0) job.targets.push_back(id);
    }
  }
  LEAT_RETURN_IF_ERROR(validate(job.graph));
  return job;
}

Result<JobGraph> make_eval_graph(const Graph& model, const TrainSpec& spec) {
  // The factor of an average is a number of the precision that the weights have.
  LEAT_ASSIGN_OR_RETURN(Graph typed, convert_precision(model, spec.precision));
  LEAT_ASSIGN_OR_RETURN(const Graph averaged,
                        read_averages(std::move(typed), spec.averaged, spec.optimizer.ema));
  LEAT_ASSIGN_OR_RETURN(Attached attached, attach_input(averaged, spec, false));
  JobGraph job{std::move(attached.graph), std::move(attached.effects), {}, {}};
  GraphBuilder g(job.graph);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("attaching the input"));
  std::deque<BatchLoss> batches = batch_losses(g, spec, attached);
  BatchLoss& batch = batches[0];
  // The sums of several steps add up to those of the data set, so nothing is divided here.
  job.fetches = {all_reduce(g, batch.sum(), "loss_sum")};
  job.fetches.push_back(all_reduce(g, batch.count(), "rows"));
  if (spec.accuracy) job.fetches.push_back(all_reduce(g, batch.correct(), "correct"));
  if (spec.accuracy && batch.weighs_labels())
    job.fetches.push_back(all_reduce(g, batch.labels(), "all labels"));
  LEAT_RETURN_IF_ERROR(add_metrics(g, spec, batch, job));
  for (size_t i = 1; i < batches.size(); ++i) {
    const std::string name = spec.losses()[i]->shown_name();
    job.fetches.push_back(all_reduce(g, batches[i].sum(), name + " sum"));
    job.fetches.push_back(all_reduce(g, batches[i].count(), name + " rows"));
  }
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the metrics"));
  return job;
}

Result<std::vector<std::string>> averaged_variables(const Graph& model, const TrainSpec& spec) {
  std::vector<std::string> names;
  if (spec.program || spec.optimizer.ema <= 0) return names;
  LEAT_ASSIGN_OR_RETURN(const auto trained, trained_variables(model, spec));
  for (const Trained& variable : trained) names.push_back(variable.name);
  return names;
}

bool is_mean(const Graph& model, const LossSpec& loss) {
  const auto output = find_output(model, loss.output);
  return loss.name == "output" && output.ok() && model.value(*output).type.shape.rank() == 0;
}

Result<JobGraph> make_predict_graph(const Graph& model, int64_t rows, DType precision,
                                    const AutocastSpec& casts) {
  LEAT_ASSIGN_OR_RETURN(Graph typed, convert_precision(model, precision));
  // A plan needs concrete shapes, so the size of the batch is fixed before inference.
  for (const ValueId input : typed.inputs()) {
    ValueType& type = typed.value(input).type;
    if (type.shape.rank() > 0) type.shape.set(0, Dim::of(rows));
  }
  Borders none;
  LEAT_ASSIGN_OR_RETURN(typed, autocast(std::move(typed), none, casts));
  LEAT_RETURN_IF_ERROR(validate(typed));
  JobGraph job{std::move(typed), {}, {}, {}};
  job.feeds = job.graph.inputs();
  job.fetches = job.graph.outputs();
  return job;
}

Result<JobGraph> make_predict_data_graph(const Graph& model, const TrainSpec& spec) {
  // As an output that is the loss, so that no labels are needed.
  TrainSpec unlabelled = spec;
  unlabelled.loss = LossSpec::of("output");
  unlabelled.loss.output = spec.loss.output;
  unlabelled.more_losses.clear();
  LEAT_ASSIGN_OR_RETURN(Attached attached, attach_input(model, unlabelled, false));
  return JobGraph{std::move(attached.graph), {}, {}, {attached.terms[0].values.output}};
}

}  // namespace leat
