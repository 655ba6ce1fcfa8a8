#include "scheduler/graph/train_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "devices/base/text.h"
#include "ops/definitions/row_shape.h"
#include "ops/graph/builder.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// Copies the model with its input replaced by `make_input(builder)` and its Initialize nodes left
// out.
struct Copied {
  Graph graph;
  ValueId output = kNone;
  std::vector<NodeId> effects;  // writes that every step does, such as running statistics
};

using MakeInput = std::function<ValueId(GraphBuilder&)>;

Result<Copied> copy_model(const Graph& model, const MakeInput& make_input) {
  if (model.inputs().size() != 1 || model.outputs().size() != 1) {
    return invalid_argument(cat("model '", model.name,
                                "': expected one input and one output, it has ",
                                model.inputs().size(), " and ", model.outputs().size()));
  }
  LEAT_ASSIGN_OR_RETURN(const auto order, model.topological_order());
  Rewriter rewriter(model);
  Graph& to = rewriter.to();
  {
    // The input comes before all nodes, because their copies may read it.
    GraphBuilder builder(to);
    rewriter.map_value(model.inputs()[0], make_input(builder));
    LEAT_RETURN_IF_ERROR(builder.status());
  }
  Copied out{Graph(model.catalogue()), kNone, {}};
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
  out.output = rewriter.value(model.outputs()[0]);
  Borders none;
  LEAT_ASSIGN_OR_RETURN(out.graph, rewriter.finish(none));
  return out;
}

struct Batch {
  ValueId features = kNone, labels = kNone, weights = kNone;
};

// A shard's rows, rescaled and in the shape that the model's input asks for.
Batch read_batch(GraphBuilder& g, const TrainSpec& spec, const ValueType& input, bool wrap) {
  // The reader draws the rows of one shard out of the global batch. In an evaluation it reads them
  // in order and stops at the end of the data instead of beginning again, so it has a third output:
  // the weight of each row, 0 past the end.
  Attrs attrs = spec.input.reader;
  const int64_t rows = spec.global_batch / spec.shards;
  attrs["global_batch"] = spec.global_batch;
  attrs["rows"] = rows;
  attrs["wrap"] = int64_t{wrap};
  if (!wrap) attrs["shuffle"] = int64_t{0};
  const ValueId step = g.op("leat.Step");
  const auto read = g.ops("leat.ReadBatch", {step}, attrs, wrap ? 2 : 3);
  Batch batch;
  if (!g.status().ok()) return {0, 0, 0};
  batch.labels = read[1];
  if (!wrap)
    batch.weights = g.op("Cast", {read[2]}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
  ValueId x = g.op("Cast", {read[0]}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
  // The cast comes before the product, because features may be bytes.
  if (spec.input.rescale != 1) x = g.op("Mul", {x, g.scalar(spec.precision, spec.input.rescale)});
  // The shape of a row is that of the record where it fits, else that of the model's input.
  const Shape record(attr_ints(attrs, "record_shape"));
  const Shape row = row_shape(record, input.shape);
  const bool fits = fits_row(record, input.shape);
  std::vector<int64_t> shape{rows};
  for (int i = 1; i < input.shape.rank(); ++i)
    shape.push_back(fits ? row[i - 1] : input.shape[i].is_constant() ? input.shape[i].factor : -1);
  batch.features = g.op(
      "Reshape", {x, g.constant(Tensor::of<int64_t>({static_cast<int64_t>(shape.size())}, shape))});
  return batch;
}

// Labels of classes in the shape that the output leaves for them: [N,1] may name those of [N,10].
Batch with_fitting_labels(GraphBuilder& g, const TrainSpec& spec, ValueId output, Batch batch) {
  const SymbolicShape& shape = g.graph().value(output).type.shape;
  const Shape label(attr_ints(spec.input.reader, "label_shape"));
  if (spec.loss != LossKind::cross_entropy || shape.rank() < 2) return batch;
  if (label.rank() == shape.rank() - 2 || !fits_row(label, shape, 2)) return batch;
  std::vector<int64_t> sizes{spec.global_batch / spec.shards};
  for (const int64_t size : row_shape(label, shape, 2)) sizes.push_back(size);
  const Tensor target = Tensor::of<int64_t>({static_cast<int64_t>(sizes.size())}, sizes);
  batch.labels = g.op("Reshape", {batch.labels, g.constant(target)});
  return batch;
}

// Sum over the shard's rows of the loss of each, weighted if there are weights.
ValueId loss_sum(GraphBuilder& g, const TrainSpec& spec, ValueId output, const Batch& batch) {
  // With weights the loss of each row is needed, so that rows past the end can be multiplied by 0.
  if (spec.loss == LossKind::cross_entropy) {
    const ValueId labels =
        g.op("Cast", {batch.labels}, {{"to", int64_t{dtype_onnx_code(DType::i64)}}});
    if (batch.weights == kNone)
      return g.op("SoftmaxCrossEntropyLoss", {output, labels}, {{"reduction", std::string("sum")}});
    const ValueId each =
        g.op("SoftmaxCrossEntropyLoss", {output, labels}, {{"reduction", std::string("none")}});
    return g.op("ReduceSum", {g.op("Mul", {each, batch.weights})}, {{"keepdims", int64_t{0}}});
  }
  // Mean squared error: of each row the mean over its elements of (output - target)^2, then the sum
  // over the rows. Both are brought to [rows, elements] first, since labels may have another rank.
  const ValueId target =
      g.op("Cast", {batch.labels}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
  const int64_t rows = spec.global_batch / spec.shards;
  const ValueId flat = g.op("Reshape", {output, g.constant(Tensor::of<int64_t>({2}, {rows, -1}))});
  const ValueId flat_target =
      g.op("Reshape", {target, g.constant(Tensor::of<int64_t>({2}, {rows, -1}))});
  const ValueId difference = g.op("Sub", {flat, flat_target});
  const ValueId each =
      g.op("ReduceMean",
           {g.op("Mul", {difference, difference}), g.constant(Tensor::of<int64_t>({1}, {1}))},
           {{"keepdims", int64_t{0}}});
  if (batch.weights == kNone) return g.op("ReduceSum", {each}, {{"keepdims", int64_t{0}}});
  return g.op("ReduceSum", {g.op("Mul", {each, batch.weights})}, {{"keepdims", int64_t{0}}});
}

// How many of the shard's rows are predicted right.
ValueId correct_sum(GraphBuilder& g, const TrainSpec& spec, ValueId output, const Batch& batch) {
  const ValueId labels =
      g.op("Cast", {batch.labels}, {{"to", int64_t{dtype_onnx_code(DType::i64)}}});
  // The class with the largest output along axis 1. The hits are added as numbers of the precision.
  const ValueId predicted =
      g.op("ArgMax", {output}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  const ValueId hits = g.op("Cast", {g.op("Equal", {predicted, labels})},
                            {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
  return g.op("ReduceSum", {batch.weights == kNone ? hits : g.op("Mul", {hits, batch.weights})},
              {{"keepdims", int64_t{0}}});
}

ValueId all_reduce(GraphBuilder& g, ValueId value, std::string name) {
  return g.named(g.op("leat.AllReduce", {value}), std::move(name));
}

// factor(t) of the schedule, in f64; t = max(0, step - warmup_steps).
ValueId schedule_factor(GraphBuilder& g, const ScheduleSpec& spec, ValueId step) {
  // The schedule is computed in f64 and rounded once at the end, in learning_rate(). In f32 the
  // number of a step beyond 2^24 would not be exact.
  const auto number = [&](double v) { return g.scalar(DType::f64, v); };
  const auto warmup = static_cast<double>(spec.warmup_steps);
  const ValueId t = g.op("Max", {g.op("Sub", {step, number(warmup)}), number(0)});
  // A schedule without steps must not divide by zero.
  const double decay = static_cast<double>(std::max<int64_t>(1, spec.decay_steps));
  const auto part = [&] { return g.op("Min", {g.op("Div", {t, number(decay)}), number(1)}); };
  switch (spec.kind) {
    case ScheduleKind::constant:
      return number(1);
    // 1 + part * (alpha - 1): from 1 down to alpha.
    case ScheduleKind::linear:
      return g.op("Add", {g.op("Mul", {part(), number(spec.alpha - 1)}), number(1)});
    // alpha + (1 - alpha) * (1 + cos(pi * part)) / 2.
    case ScheduleKind::cosine: {
      const ValueId cosine = g.op("Cos", {g.op("Mul", {part(), number(std::numbers::pi)})});
      const ValueId half =
          g.op("Mul", {g.op("Add", {cosine, number(1)}), number(0.5 * (1 - spec.alpha))});
      return g.op("Add", {half, number(spec.alpha)});
    }
    // gamma^floor(t / step_size).
    case ScheduleKind::step: {
      const double size = static_cast<double>(std::max<int64_t>(1, spec.step_size));
      return g.op("Pow", {number(spec.gamma), g.op("Floor", {g.op("Div", {t, number(size)})})});
    }
    // decay_rate^(t / decay_steps), without an end.
    case ScheduleKind::exponential:
      return g.op("Pow", {number(spec.decay_rate), g.op("Div", {t, number(decay)})});
  }
  return number(1);
}

// The rate of the step: learning_rate * factor(t) * min(1, (step + 1) / warmup_steps). The step
// counts from 0, so the first step of the warm-up has a rate above 0.
ValueId learning_rate(GraphBuilder& g, const TrainSpec& spec, ValueId step_index) {
  const auto to_f64 = [&](ValueId v) {
    return g.op("Cast", {v}, {{"to", int64_t{dtype_onnx_code(DType::f64)}}});
  };
  const ValueId step = to_f64(step_index);
  ValueId factor = schedule_factor(g, spec.schedule, step);
  if (spec.schedule.warmup_steps > 0) {
    const ValueId one_more = g.op("Add", {step, g.scalar(DType::f64, 1)});
    const ValueId climb = g.op(
        "Min", {g.op("Div", {one_more, g.scalar(DType::f64,
                                                static_cast<double>(spec.schedule.warmup_steps))}),
                g.scalar(DType::f64, 1)});
    factor = g.op("Mul", {factor, climb});
  }
  const ValueId rate = g.op("Mul", {factor, g.scalar(DType::f64, spec.optimizer.learning_rate)});
  return g.op("Cast", {rate}, {{"to", int64_t{dtype_onnx_code(spec.precision)}}});
}

// As schedule_factor() has it.
double factor_at(const ScheduleSpec& spec, double t) {
  const double decay = static_cast<double>(std::max<int64_t>(1, spec.decay_steps));
  const double part = std::min(t / decay, 1.0);
  switch (spec.kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::linear:
      return part * (spec.alpha - 1) + 1;
    case ScheduleKind::cosine:
      return (std::cos(part * std::numbers::pi) + 1) * (0.5 * (1 - spec.alpha)) + spec.alpha;
    case ScheduleKind::step:
      return std::pow(spec.gamma,
                      std::floor(t / static_cast<double>(std::max<int64_t>(1, spec.step_size))));
    case ScheduleKind::exponential:
      return std::pow(spec.decay_rate, t / decay);
  }
  return 1;
}

// A variable that is trained, and the value of its one Read.
struct Trained {
  std::string name;
  ValueId variable = kNone;
  ValueId read = kNone;
  Shape shape;
  bool is_table = false;
};

// Does nothing read the variable but lookups of its rows?
bool is_table(const Graph& graph, ValueId read, const std::vector<NodeId>& readers) {
  return std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    const bool looks_up =
        is_op(node, "Gather") && node.inputs[0] == read && attr_int(node.attrs, "axis") == 0;
    return looks_up || is_op(node, "leat.Gradients");
  });
}

// The variables that the loss is differentiated by, in the order in which the model reads them.
Result<std::vector<Trained>> trained_variables(const Graph& graph, const TrainSpec& spec) {
  std::vector<Trained> out;
  std::set<std::string> names;
  const auto readers = graph.consumers();
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!is_op(node, "leat.Read")) continue;
    const Node& variable = graph.node(graph.value(node.inputs[0]).producer);
    const std::string name = attr_string(variable.attrs, "name");
    // Frozen variables, and those that are not trainable, get no gradient.
    if (attr_int(variable.attrs, "trainable", 1) == 0 || (spec.frozen && spec.frozen(name)))
      continue;
    if (!names.insert(name).second) {
      return invalid_argument(
          cat("variable '", name, "': expected one Read in the model, found several"));
    }
    const auto shape = Shape::checked(attr_ints(variable.attrs, "shape"));
    out.push_back({name, node.inputs[0], node.outputs[0], shape.value_or(Shape()),
                   is_table(graph, node.outputs[0], readers[node.outputs[0]])});
  }
  if (out.empty())
    return invalid_argument(
        cat("model '", graph.name, "': expected at least one trainable variable, found none"));
  return out;
}

// State of the optimizer beside a variable: of the same shape, and never trained itself.
ValueId slot(GraphBuilder& g, const TrainSpec& spec, const Trained& v, std::string_view kind) {
  return g.op("leat.Variable", {},
              {{"name", cat(kOptimizerPrefix, v.name, "/", kind)},
               {"shape", std::vector<int64_t>(v.shape.begin(), v.shape.end())},
               {"dtype", std::string(dtype_name(spec.precision))},
               {"trainable", int64_t{0}}});
}

// Adds the node that updates one variable. SGD without momentum has an op of its own, which needs
// no slot.
NodeId apply(GraphBuilder& g, const TrainSpec& spec, const Trained& v, ValueId grad, ValueId rate,
             ValueId step) {
  const OptimizerSpec& o = spec.optimizer;
  Attrs attrs{{"weight_decay", o.weight_decay}};
  if (o.lazy && v.is_table) attrs["lazy"] = int64_t{1};
  if (o.kind == OptimizerKind::sgd && o.momentum == 0)
    return g.effect("leat.ApplySgd", {v.variable, grad, rate}, attrs);
  if (o.kind == OptimizerKind::sgd) {
    attrs["momentum"] = o.momentum;
    attrs["nesterov"] = int64_t{o.nesterov};
    return g.effect("leat.ApplyMomentum", {v.variable, slot(g, spec, v, "momentum"), grad, rate},
                    attrs);
  }
  attrs["beta_1"] = o.beta_1;
  attrs["beta_2"] = o.beta_2;
  attrs["epsilon"] = o.epsilon;
  const char* op = o.kind == OptimizerKind::adam ? "leat.ApplyAdam" : "leat.ApplyAdamW";
  return g.effect(op, {v.variable, slot(g, spec, v, "m"), slot(g, spec, v, "v"), grad, rate, step},
                  attrs);
}

Status check_spec(const TrainSpec& spec) {
  if (spec.shards < 1 || spec.global_batch < 1 || spec.global_batch % spec.shards != 0) {
    return invalid_argument(cat("global batch: expected a multiple of the shards (", spec.shards,
                                "), received ", spec.global_batch));
  }
  return {};
}

// The model with its input read from the data set, at the given precision.
Result<Copied> attach_input(const Graph& model, const TrainSpec& spec, bool wrap, Batch& batch) {
  LEAT_RETURN_IF_ERROR(check_spec(spec));
  LEAT_ASSIGN_OR_RETURN(const Graph typed, convert_precision(model, spec.precision));
  const ValueType input =
      typed.inputs().empty() ? ValueType() : typed.value(typed.inputs()[0]).type;
  return copy_model(typed, [&](GraphBuilder& g) {
    batch = read_batch(g, spec, input, wrap);
    return batch.features;
  });
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
  return type.kind == ValueKind::tensor && type.dtype == precision;
}

// "Div 'd1/quotient'", "variable 'd1/kernel'".
std::string named(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!is_op(node, "leat.Read")) return graph.describe_node(id);
  const Node& variable = graph.node(graph.value(node.inputs[0]).producer);
  return cat("variable '", attr_string(variable.attrs, "name"), "'");
}

}  // namespace

Result<JobGraph> make_train_graph(const Graph& model, const TrainSpec& spec) {
  Batch batch;
  LEAT_ASSIGN_OR_RETURN(Copied copied, attach_input(model, spec, true, batch));
  JobGraph job{std::move(copied.graph), std::move(copied.effects), {}, {}};
  GraphBuilder g(job.graph);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("attaching the input"));
  batch = with_fitting_labels(g, spec, copied.output, batch);
  const double per_row = 1.0 / static_cast<double>(spec.global_batch);
  const ValueId scale = g.scalar(spec.precision, per_row);
  // The mean over the global batch is a sum times a constant, so that it splits over shards.
  const ValueId loss = g.op("Mul", {loss_sum(g, spec, copied.output, batch), scale});
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the loss"));
  LEAT_ASSIGN_OR_RETURN(const auto trained, trained_variables(job.graph, spec));
  std::vector<ValueId> operands{loss};
  for (const Trained& v : trained) operands.push_back(v.read);
  // The gradients are of the shard's part of the loss. The AllReduce of each adds up the shards.
  const auto grads = g.ops("leat.Gradients", operands, {}, static_cast<int>(trained.size()));
  const ValueId step = g.op("leat.Step");
  const ValueId rate = learning_rate(g, spec, step);
  for (size_t i = 0; i < trained.size() && g.status().ok(); ++i) {
    const ValueId grad = all_reduce(g, grads[i], cat("gradient of ", trained[i].name));
    job.targets.push_back(apply(g, spec, trained[i], grad, rate, step));
  }
  job.fetches.push_back(all_reduce(g, loss, "loss"));
  if (spec.accuracy) {
    job.fetches.push_back(all_reduce(
        g, g.op("Mul", {correct_sum(g, spec, copied.output, batch), scale}), "accuracy"));
  }
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the optimizer"));
  return job;
}

Result<CheckGraph> make_check_graph(const Graph& model, const TrainSpec& spec) {
  Batch batch;
  LEAT_ASSIGN_OR_RETURN(Copied copied, attach_input(model, spec, true, batch));
  CheckGraph check{{std::move(copied.graph), {}, {}, {}}, {}};
  Graph& graph = check.job.graph;
  GraphBuilder g(graph);
  const ValueId loss = loss_sum(g, spec, copied.output, batch);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the loss"));
  LEAT_RETURN_IF_ERROR(validate(graph));
  std::map<ValueId, size_t> places;
  std::vector<ValueId> sums;
  const ValueId zero = g.scalar(spec.precision, 0);
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
      const ValueId sum =
          g.op("ReduceSum", {g.op("Mul", {output, zero})}, {{"keepdims", int64_t{0}}});
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

double learning_rate_at(const TrainSpec& spec, int64_t step) {
  const auto at = static_cast<double>(step);
  const auto warmup = static_cast<double>(spec.schedule.warmup_steps);
  double factor = factor_at(spec.schedule, std::max(at - warmup, 0.0));
  if (warmup > 0) factor *= std::min((at + 1) / warmup, 1.0);
  return factor * spec.optimizer.learning_rate;
}

Result<JobGraph> make_init_graph(const Graph& model, DType precision) {
  LEAT_ASSIGN_OR_RETURN(Graph typed, convert_precision(model, precision));
  JobGraph job{std::move(typed), {}, {}, {}};
  for (NodeId id = 0; id < job.graph.nodes(); ++id) {
    if (is_op(job.graph.node(id), "leat.Initialize")) job.targets.push_back(id);
  }
  LEAT_RETURN_IF_ERROR(validate(job.graph));
  return job;
}

Result<JobGraph> make_eval_graph(const Graph& model, const TrainSpec& spec) {
  Batch batch;
  LEAT_ASSIGN_OR_RETURN(Copied copied, attach_input(model, spec, false, batch));
  JobGraph job{std::move(copied.graph), {}, {}, {}};
  GraphBuilder g(job.graph);
  LEAT_RETURN_IF_ERROR(g.status().while_doing("attaching the input"));
  batch = with_fitting_labels(g, spec, copied.output, batch);
  // The sums of several steps add up to those of the data set, so nothing is divided here.
  job.fetches = {all_reduce(g, loss_sum(g, spec, copied.output, batch), "loss_sum")};
  job.fetches.push_back(
      all_reduce(g, g.op("ReduceSum", {batch.weights}, {{"keepdims", int64_t{0}}}), "rows"));
  if (spec.accuracy) {
    job.fetches.push_back(all_reduce(g, correct_sum(g, spec, copied.output, batch), "correct"));
  }
  LEAT_RETURN_IF_ERROR(g.status().while_doing("adding the metrics"));
  return job;
}

Result<JobGraph> make_predict_graph(const Graph& model, int64_t rows, DType precision) {
  LEAT_ASSIGN_OR_RETURN(Graph typed, convert_precision(model, precision));
  if (typed.inputs().size() != 1 || typed.outputs().size() != 1) {
    return invalid_argument(cat("model '", model.name, "': expected one input and one output"));
  }
  ValueType& input = typed.value(typed.inputs()[0]).type;
  // A plan needs concrete shapes, so the size of the batch is fixed before inference.
  if (input.shape.rank() > 0) input.shape.set(0, Dim::of(rows));
  LEAT_RETURN_IF_ERROR(validate(typed));
  JobGraph job{std::move(typed), {}, {}, {}};
  job.feeds = {job.graph.inputs()[0]};
  job.fetches = {job.graph.outputs()[0]};
  return job;
}

Result<Graph> convert_precision(const Graph& graph, DType precision) {
  Graph out = graph;
  if (precision == DType::f32) return out;
  const auto name = std::string(dtype_name(precision));
  const int64_t code = dtype_onnx_code(precision), f32 = dtype_onnx_code(DType::f32);
  for (ValueId input : out.inputs()) {
    if (out.value(input).type.dtype == DType::f32) out.value(input).type.dtype = precision;
  }
  for (NodeId id = 0; id < out.nodes(); ++id) {
    Node& node = out.node(id);
    // The loop goes over a copy, because it changes the node's own attributes. A type is written as
    // a tensor, as a name, or as ONNX's number.
    for (const auto& [key, attr] : Attrs(node.attrs)) {
      if (const auto* tensor = std::get_if<Tensor>(&attr); tensor && tensor->dtype() == DType::f32)
        node.attrs[key] = tensor->cast(precision);
      if (const auto* text = std::get_if<std::string>(&attr);
          text && key == "dtype" && *text == "float")
        node.attrs[key] = name;
      if (const auto* number = std::get_if<int64_t>(&attr);
          number && (key == "dtype" || key == "to") && *number == f32)
        node.attrs[key] = code;
    }
    // Defaults are f32 too.
    const auto has_default = [&](std::string_view attr) {
      return !has_attr(node.attrs, attr) &&
             std::any_of(node.op->attributes.begin(), node.op->attributes.end(),
                         [&](const AttrDef& d) { return d.name == attr; });
    };
    if (is_op(node, "leat.Variable") && has_default("dtype")) node.attrs["dtype"] = name;
    if (node.op->random && node.inputs.empty() && has_default("dtype")) node.attrs["dtype"] = code;
    if (is_op(node, "ConstantOfShape") && has_default("value"))
      node.attrs["value"] = Tensor(precision, Shape({1}));
  }
  return out;
}

}  // namespace leat
