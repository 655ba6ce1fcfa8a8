#include "scheduler/graph/weight_average.h"

#include <algorithm>

#include "ops/graph/op.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/recipes/expression.h"
#include "scheduler/recipes/update.h"

namespace leat {
namespace {

ValueId average_steps(GraphBuilder& g, DType dtype) {
  return g.op("leat.Variable", {},
              {{"name", std::string(kAverageSteps)},
               {"shape", std::vector<int64_t>()},
               {"dtype", std::string(dtype_name(dtype))},
               {"trainable", int64_t{0}}});
}

// a_k from a_(k-1) and w_k.
Expression next_average(const Expression& average, const Expression& weight,
                        const Expression& steps, double factor) {
  return where(less(steps, 0.5), weight, average * factor + weight * (1 - factor));
}

// Replaces the readers of `from`, but for the nodes from `first_new` on.
void replace_readers(Graph& graph, ValueId from, ValueId to, NodeId first_new) {
  for (NodeId id = 0; id < first_new; ++id) {
    std::vector<ValueId>& inputs = graph.node(id).inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
  }
}

}  // namespace

void add_averages(GraphBuilder& g, const TrainSpec& spec, const std::vector<Trained>& trained,
                  JobGraph& job) {
  Emitter emitter(g);
  const ValueId counter = average_steps(g, spec.precision);
  const Expression steps = graph_value(g, g.op("leat.Read", {counter}));
  for (const Trained& variable : trained) {
    const ValueId slot =
        optimizer_slot(g, variable.name, kAverageSlot, spec.precision, variable.shape);
    const Expression average = graph_value(g, g.op("leat.Read", {slot}));
    const Expression next =
        next_average(average, graph_value(g, variable.read), steps, spec.optimizer.ema);
    job.targets.push_back(g.effect("leat.Assign", {slot, emitter.emit(next)}));
  }
  job.targets.push_back(g.effect("leat.Assign", {counter, emitter.emit(steps + 1)}));
}

Result<Graph> read_averages(Graph model, const std::vector<std::string>& variables, double factor) {
  if (variables.empty()) return model;
  GraphBuilder g(model);
  LEAT_RETURN_IF_ERROR(g.status());
  Emitter emitter(g);
  for (NodeId id = 0, end = model.nodes(); id < end; ++id) {
    const Node node = model.node(id);  // adding nodes moves them
    if (!is_op(node, "leat.Read")) continue;
    const Attrs attrs = model.node(model.value(node.inputs[0]).producer).attrs;
    const std::string name = attr_string(attrs, "name");
    if (std::count(variables.begin(), variables.end(), name) == 0) continue;
    const ValueId read = node.outputs[0];
    const DType dtype = model.value(read).type.dtype;
    const auto shape = Shape::checked(attr_ints(attrs, "shape"));
    const NodeId first_new = model.nodes();
    const ValueId slot = optimizer_slot(g, name, kAverageSlot, dtype, shape.value_or(Shape()));
    const Expression steps = graph_value(g, g.op("leat.Read", {average_steps(g, dtype)}));
    const Expression average = graph_value(g, g.op("leat.Read", {slot}));
    const ValueId next = emitter.emit(next_average(average, graph_value(g, read), steps, factor));
    replace_readers(model, read, next, first_new);
  }
  LEAT_RETURN_IF_ERROR(g.status().while_doing("averaging the weights"));
  return model;
}

}  // namespace leat
