#include "scheduler/graph/updates.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "devices/base/glob.h"
#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/weight_average.h"
#include "scheduler/recipes/expression.h"
#include "scheduler/recipes/schedule.h"
#include "scheduler/recipes/update.h"

namespace leat {
namespace {

// Does nothing read the variable but lookups of its rows, perhaps in a branch? `readers` are those
// of each value.
bool is_table(const Graph& graph, ValueId read, const std::vector<std::vector<NodeId>>& readers) {
  return std::all_of(readers[read].begin(), readers[read].end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    if (is_op(node, "leat.Enter")) return is_table(graph, node.outputs[0], readers);
    const bool looks_up =
        is_op(node, "Gather") && node.inputs[0] == read && attr_int(node.attrs, "axis") == 0;
    return looks_up || is_op(node, "leat.Gradients");
  });
}

// A glob that matches nothing is misspelt more often than not. A group may have some that do not
// fit this model.
Status check_globs(const Graph& graph, const OptimizerSpec& spec) {
  std::vector<std::string> names;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (is_op(node, "leat.Variable") && attr_int(node.attrs, "trainable", 1) != 0)
      names.push_back(attr_string(node.attrs, "name"));
  }
  const auto fits = [&](const std::string& glob) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return matches_glob(glob, name); });
  };
  for (const OptimizerGroup& group : spec.groups) {
    if (std::any_of(group.match.begin(), group.match.end(), fits)) continue;
    return invalid_argument(cat("optimizer.groups: expected globs of variables of '", graph.name,
                                "', '", join(group.match, "', '"), "' match none",
                                did_you_mean(group.match[0], names)));
  }
  for (const std::string& glob : spec.layer_decay.layers) {
    if (fits(glob)) continue;
    return invalid_argument(cat("optimizer.layer_decay: expected globs of variables of '",
                                graph.name, "', '", glob, "' matches none",
                                did_you_mean(glob, names)));
  }
  return {};
}

// The updates of one step.
class Updates {
 public:
  Updates(GraphBuilder& g, const TrainSpec& spec)
      : g_(g), spec_(spec), optimizer_(spec.optimizer), emitter_(g), step_(g.op("leat.Step")) {
    const Expression step = cast(graph_value(g, step_), DType::f64);
    t_ = step + 1;
    // The schedule is computed in f64 and rounded once at the end. In f32 the number of a step
    // beyond 2^24 would not be exact.
    Expression factor = schedule_factor(spec.schedule, step);
    if (find_schedule(spec.schedule.name)->looks_at_epochs) factor = factor * after_cut(cut());
    if (factor.is_number()) factor = graph_constant(g, DType::f64, factor.part()->number);
    factor_ = emitter_.emit(factor);
    rate_of(optimizer_.learning_rate);
  }

  void add(const std::vector<Trained>& trained, const std::vector<ValueId>& gradients,
           LossScale& loss_scale, JobGraph& job) {
    sums_.assign(trained.size(), kNone);
    const auto summed = [&](size_t i) {
      const ValueId sum =
          g_.named(g_.op("leat.AllReduce", {gradients[i]}), cat("gradient of ", trained[i].name));
      return bound_elements(loss_scale.unscaled(sum));
    };
    const auto gradient = [&](size_t i) {
      if (sums_[i] == kNone) sums_[i] = summed(i);
      return sums_[i];
    };
    if (optimizer_.clip_norm > 0) {
      for (size_t i = 0; i < trained.size(); ++i) gradient(i);
      bound_norm(sums_);
    }
    for (size_t i = 0; i < trained.size(); ++i)
      prepare(trained[i], [&gradient, i] { return gradient(i); });
    for (size_t i = 0; i < trained.size() && g_.status().ok(); ++i) {
      gradient(i);
      find_optimizer(optimizer_.name)->update(*updates_[i]);
    }
    for (const auto& update : updates_)
      job.targets.insert(job.targets.end(), update->nodes().begin(), update->nodes().end());
    if (optimizer_.ema > 0) add_averages(g_, spec_, trained, job);
  }

 private:
  struct Rate {
    ValueId exact = kNone;    // in f64
    ValueId rounded = kNone;  // in the precision of the weights
  };

  Rate rate_of(double learning_rate) {
    const auto found = rates_.find(learning_rate);
    if (found != rates_.end()) return found->second;
    const ValueId exact = g_.op("Mul", {factor_, g_.scalar(DType::f64, learning_rate)});
    const ValueId rounded =
        g_.op("Cast", {exact}, {{"to", int64_t{dtype_onnx_code(spec_.precision)}}});
    return rates_[learning_rate] = {exact, rounded};
  }

  // The value of kPlateauCut.
  Expression cut() {
    const ValueId variable = g_.op("leat.Variable", {},
                                   {{"name", std::string(kPlateauCut)},
                                    {"shape", std::vector<int64_t>()},
                                    {"dtype", std::string(dtype_name(DType::f64))},
                                    {"trainable", int64_t{0}}});
    return graph_value(g_, g_.op("leat.Read", {variable}));
  }

  ValueId bound_elements(ValueId gradient) {
    if (optimizer_.clip_value <= 0) return gradient;
    return emitter_.emit(
        max(min(graph_value(g_, gradient), optimizer_.clip_value), -optimizer_.clip_value));
  }

  // As torch.nn.utils.clip_grad_norm_: all gradients times min(1, clip_norm / (norm + 1e-6)). Each
  // square is summed where its variable is, and the sums are added in the order of the variables,
  // so that the norm has the same bits wherever that is.
  void bound_norm(std::vector<ValueId>& gradients) {
    Expression squares = 0;
    for (const ValueId gradient : gradients) {
      const Expression one = cast(sum(g_, square(graph_value(g_, gradient))), DType::f64);
      squares = squares.is_number() ? one : squares + one;
    }
    const Expression factor =
        cast(min(optimizer_.clip_norm / (sqrt(squares) + 1e-6), 1), spec_.precision);
    for (ValueId& gradient : gradients)
      gradient = emitter_.emit(graph_value(g_, gradient) * factor);
  }

  void prepare(const Trained& variable, std::function<ValueId()> gradient) {
    rules_.push_back(rule_of(optimizer_, variable.name));
    const Rate rate = rate_of(rules_.back().learning_rate);
    UpdateInputs inputs;
    inputs.name = variable.name;
    inputs.shape = variable.shape;
    inputs.dtype = spec_.precision;
    inputs.variable = variable.variable;
    inputs.weight = variable.read;
    inputs.rate = rate.exact;
    inputs.rounded_rate = rate.rounded;
    inputs.step = step_;
    inputs.t = t_;
    inputs.lazy = optimizer_.lazy && variable.is_table;
    inputs.gradient = std::move(gradient);
    inputs.all = &updates_;
    inputs_.push_back(std::move(inputs));
    updates_.push_back(
        std::make_unique<Update>(emitter_, g_, inputs_.back(), rules_.back().values));
  }

  GraphBuilder& g_;
  const TrainSpec& spec_;
  const OptimizerSpec& optimizer_;
  Emitter emitter_;
  const ValueId step_;
  Expression t_ = 1;
  ValueId factor_ = kNone;
  std::map<double, Rate> rates_;
  std::vector<ValueId> sums_;  // the gradients, once they are there
  // By variable. The updates refer to the other two.
  std::deque<VariableRule> rules_;
  std::deque<UpdateInputs> inputs_;
  std::vector<std::unique_ptr<Update>> updates_;
};

}  // namespace

Result<std::vector<Trained>> trained_variables(const Graph& graph, const TrainSpec& spec) {
  LEAT_RETURN_IF_ERROR(check_globs(graph, spec.optimizer));
  std::vector<Trained> out;
  std::set<std::string> names;
  const auto readers = graph.consumers();
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!is_op(node, "leat.Read")) continue;
    const Node& variable = graph.node(graph.value(node.inputs[0]).producer);
    const std::string name = attr_string(variable.attrs, "name");
    // Frozen variables, and those that are not trainable, get no gradient.
    if (attr_int(variable.attrs, "trainable", 1) == 0 || (spec.frozen && spec.frozen(name)) ||
        rule_of(spec.optimizer, name).frozen)
      continue;
    if (!names.insert(name).second) {
      return invalid_argument(
          cat("variable '", name, "': expected one Read in the model, found several"));
    }
    const auto shape = Shape::checked(attr_ints(variable.attrs, "shape"));
    out.push_back({name, node.inputs[0], node.outputs[0], shape.value_or(Shape()),
                   is_table(graph, node.outputs[0], readers)});
  }
  if (out.empty())
    return invalid_argument(
        cat("model '", graph.name, "': expected at least one trainable variable, found none"));
  return out;
}

void add_updates(GraphBuilder& g, const TrainSpec& spec, const std::vector<Trained>& trained,
                 const std::vector<ValueId>& gradients, LossScale& loss_scale, JobGraph& job) {
  Updates(g, spec).add(trained, gradients, loss_scale, job);
}

}  // namespace leat
