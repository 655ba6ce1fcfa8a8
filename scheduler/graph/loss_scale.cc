#include "scheduler/graph/loss_scale.h"

#include <algorithm>
#include <set>
#include <string>

#include "devices/base/text.h"
#include "ops/definitions/guard.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

constexpr double kMostExponent = 100;

ValueId cast(GraphBuilder& g, ValueId value, DType dtype) {
  return g.op("Cast", {value}, {{"to", int64_t{dtype_onnx_code(dtype)}}});
}

// The index of the operand that is a guard; as many as there are operands if the op has none.
size_t guard_operand(const OpDef& op) {
  const auto found = std::find_if(op.inputs.begin(), op.inputs.end(),
                                  [](const Operand& each) { return each.name == kGuard; });
  return static_cast<size_t>(found - op.inputs.begin());
}

void set_guard(Graph& graph, NodeId id, ValueId guard) {
  Node& node = graph.node(id);
  const size_t index = guard_operand(*node.op);
  node.inputs.resize(std::max(node.inputs.size(), index + 1), kNone);
  node.inputs[index] = guard;
}

// 0, or NaN if an element of one of the values is not finite: the sum of x * 0 over all of them.
ValueId guard_of(GraphBuilder& g, const std::vector<ValueId>& values) {
  ValueId all = kNone;
  for (const ValueId value : values) {
    const ValueType type = g.graph().value(value).type;
    ValueId sum = g.op("Mul", {value, g.scalar(type.dtype, 0)});
    if (type.shape.rank() > 0) sum = g.op("ReduceSum", {sum}, {{"keepdims", int64_t{0}}});
    if (type.dtype != DType::f32) sum = cast(g, sum, DType::f32);
    all = all == kNone ? sum : g.op("Add", {all, sum});
  }
  return all;
}

}  // namespace

LossScale::LossScale(GraphBuilder& g, const LossScaleSpec& spec) : g_(g), spec_(spec) {
  if (spec_.kind == LossScaleSpec::Kind::none) return;
  if (spec_.kind == LossScaleSpec::Kind::fixed) {
    scale_ = g_.scalar(DType::f32, spec_.initial);
    inverse_ = g_.scalar(DType::f32, 1 / spec_.initial);
    return;
  }
  read_state();
  // A power of two is exact in f64, and so are its product and quotient in f32.
  const ValueId power = g_.op("Pow", {g_.scalar(DType::f64, 2), cast(g_, exponent_, DType::f64)});
  const ValueId scale = g_.op("Mul", {power, g_.scalar(DType::f64, spec_.initial)});
  scale_ = cast(g_, scale, DType::f32);
  inverse_ = cast(g_, g_.op("Div", {g_.scalar(DType::f64, 1), scale}), DType::f32);
}

ValueId LossScale::times(ValueId value, ValueId factor) {
  return factor == kNone ? value : g_.op("Mul", {value, factor});
}

ValueId LossScale::variable(std::string_view name) {
  return g_.op("leat.Variable", {},
               {{"name", std::string(name)},
                {"shape", std::vector<int64_t>()},
                {"dtype", std::string(dtype_name(DType::f32))},
                {"trainable", int64_t{0}}});
}

void LossScale::read_state() {
  exponent_variable_ = variable(kLossScaleExponent);
  good_variable_ = variable(kLossScaleGoodSteps);
  exponent_ = g_.op("leat.Read", {exponent_variable_});
  good_ = g_.op("leat.Read", {good_variable_});
}

// With bad = the guard is NaN, and grows = this is the last of growth_interval good steps:
//
//   exponent = bad ? exponent - 1 : grows ? exponent + 1 : exponent
//   good     = bad or grows ? 0 : good + 1
void LossScale::update(JobGraph& job, ValueId guard) {
  const auto number = [&](double value) { return g_.scalar(DType::f32, value); };
  const auto plus = [&](ValueId value, double more) { return g_.op("Add", {value, number(more)}); };
  const ValueId bad = g_.op("IsNaN", {guard});
  const ValueId good = plus(good_, 1);
  const ValueId grows =
      g_.op("GreaterOrEqual", {good, number(static_cast<double>(spec_.growth_interval))});
  const ValueId halved = g_.op("Max", {plus(exponent_, -1), number(-kMostExponent)});
  const ValueId doubled = g_.op("Min", {plus(exponent_, 1), number(kMostExponent)});
  const ValueId exponent =
      g_.op("Where", {bad, halved, g_.op("Where", {grows, doubled, exponent_})});
  const ValueId count = g_.op("Where", {g_.op("Or", {bad, grows}), number(0), good});
  job.targets.push_back(g_.effect("leat.Assign", {exponent_variable_, exponent}));
  job.targets.push_back(g_.effect("leat.Assign", {good_variable_, count}));
}

Status LossScale::finish(JobGraph& job) {
  if (spec_.kind != LossScaleSpec::Kind::dynamic) return {};
  // All that the step shows and writes: the values that on_nan: skip looks at.
  std::vector<ValueId> watched;
  std::set<ValueId> known;
  const auto watch = [&](ValueId value) {
    if (value == kNone) return;
    const ValueType& type = job.graph.value(value).type;
    const bool counts = type.kind == ValueKind::tensor && is_float(type.dtype);
    if (counts && known.insert(value).second) watched.push_back(value);
  };
  for (const ValueId fetch : job.fetches) watch(fetch);
  for (const NodeId id : job.targets) {
    const Node& node = job.graph.node(id);
    if (guard_operand(*node.op) == node.op->inputs.size()) {
      return unimplemented(cat(job.graph.describe_node(id),
                               ": a step cannot leave out what it does; expected writes to "
                               "variables alone beside a dynamic loss scale"));
    }
    for (const ValueId input : node.inputs) watch(input);
  }
  const ValueId guard = g_.named(guard_of(g_, watched), std::string(kGuard));
  for (const NodeId id : job.targets) set_guard(job.graph, id, guard);
  update(job, guard);
  job.fetches.push_back(g_.named(scale_, "loss_scale"));
  job.fetches.push_back(guard);
  return g_.status().while_doing("adding the loss scale");
}

}  // namespace leat
