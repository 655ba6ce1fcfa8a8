#include "scheduler/graph/sharpness.h"

#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "scheduler/recipes/expression.h"

namespace leat {
namespace {

// By node: true if `value` is made of its outputs.
std::vector<bool> needed_for(const Graph& graph, const std::vector<NodeId>& order, ValueId value) {
  std::vector<bool> needed(graph.nodes(), false);
  if (graph.value(value).producer != kNone) needed[graph.value(value).producer] = true;
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    if (!needed[*id]) continue;
    for (const ValueId input : graph.node(*id).inputs) {
      if (input != kNone && graph.value(input).producer != kNone)
        needed[graph.value(input).producer] = true;
    }
  }
  return needed;
}

// Computes `value` once more, with other values in place of some.
ValueId computed_with(GraphBuilder& g, ValueId value, std::map<ValueId, ValueId> others) {
  const auto order = g.graph().topological_order();
  if (!g.status().ok() || !order.ok()) return value;
  const std::vector<bool> needed = needed_for(g.graph(), *order, value);
  for (const NodeId id : *order) {
    const Node node = g.graph().node(id);  // adding nodes moves them
    const bool changes = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId input) { return others.contains(input); });
    if (!needed[id] || !changes) continue;
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs) {
      if (const auto other = others.find(input); other != others.end()) input = other->second;
    }
    const auto outputs = g.ops(node.op->full_name(), std::move(inputs), node.attrs,
                               static_cast<int>(node.outputs.size()));
    if (!g.status().ok()) return value;
    Node& made = g.graph().node(g.graph().value(outputs[0]).producer);
    made.source = node.source;  // the same random numbers
    made.device = node.device;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i] != kNone) others[node.outputs[i]] = outputs[i];
    }
  }
  const auto found = others.find(value);
  return found == others.end() ? value : found->second;
}

}  // namespace

std::vector<ValueId> gradients_nearby(GraphBuilder& g, const TrainSpec& spec,
                                      const std::vector<Trained>& trained,
                                      const std::vector<ValueId>& gradients, ValueId loss,
                                      LossScale& loss_scale) {
  Emitter emitter(g);
  std::vector<Expression> sums;
  Expression squares = 0;
  for (size_t i = 0; i < trained.size(); ++i) {
    const ValueId sum =
        g.named(g.op("leat.AllReduce", {gradients[i]}), cat("ascent of ", trained[i].name));
    sums.push_back(graph_value(g, loss_scale.unscaled(sum)));
    const Expression one = cast(leat::sum(g, square(sums.back())), DType::f64);
    squares = squares.is_number() ? one : squares + one;
  }
  const Expression factor = cast(spec.optimizer.sam / (sqrt(squares) + 1e-12), spec.precision);
  std::map<ValueId, ValueId> nearby;
  for (size_t i = 0; i < trained.size(); ++i)
    nearby[trained[i].read] = emitter.emit(graph_value(g, trained[i].read) + sums[i] * factor);
  std::vector<ValueId> operands{loss_scale.scaled(computed_with(g, loss, nearby))};
  for (const Trained& variable : trained) operands.push_back(nearby[variable.read]);
  return g.ops("leat.Gradients", std::move(operands), {}, static_cast<int>(trained.size()));
}

}  // namespace leat
