#include "ops/definitions/elementwise.h"

#include <algorithm>

namespace leat {
namespace {

// Blocked operands need equal shapes: an operand that broadcasts over an axis has no channels to
// put into blocks of 16.
bool same_shape_as_output(const OperandType& input, const OpTypes& types) {
  return input.present && input.shape == types.outputs[0].shape;
}

}  // namespace

// A tile of output rows needs the same rows of each operand whose dimension 0 is that of the
// output. Operands of lower rank, and those of one row, broadcast: every tile reads them whole.
Tiling elementwise_tiling(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  // Operands are bits of 32-bit sets, so a node with more than 32 inputs (Sum, Max) is not cut.
  if (shape.rank() == 0 || shape[0] <= 1 || types.inputs.size() > 32) return {};
  Tiling tiling{shape[0], 0, 1};
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    const OperandType& input = types.inputs[i];
    const bool rows =
        input.present && input.shape.rank() == shape.rank() && input.shape[0] == shape[0];
    if (rows) tiling.row_inputs |= 1u << i;
  }
  return tiling;
}

// Elementwise kernels walk the bytes in order and do not look at indices. They work on blocked
// operands if all of them have the output's shape, or are single elements.
LayoutSupport elementwise_layouts(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  const bool fits = shape.rank() == 4 && shape[1] > 0 && shape[1] % 16 == 0;
  if (!fits || !is_float(types.outputs[0].dtype) || types.inputs.size() > 32) return {};
  // The op accepts blocks but does not ask for them: no elementwise op is faster because of the
  // layout.
  LayoutSupport support{0, 1, false};
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    const OperandType& input = types.inputs[i];
    if (!input.present) continue;
    if (same_shape_as_output(input, types)) {
      // A condition or a mask of the same shape would have to be blocked too; this rule is for
      // floats only.
      if (!is_float(input.dtype)) return {};
      support.inputs |= 1u << i;
    } else if (input.shape.elements() != 1) {
      return {};
    }
  }
  return support.inputs == 0 ? LayoutSupport{} : support;
}

// A split is legal along every output axis of more than one element. Numpy's rule aligns the axes
// at the end, so axis `axis` of the output is axis `mine` of an operand of lower rank.
std::vector<ShardingRule> shard_elementwise(const std::vector<OperandType>& inputs,
                                            const std::vector<OperandType>& outputs, const Attrs&) {
  std::vector<ShardingRule> rules;
  const Shape& shape = outputs[0].shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    ShardingRule rule;
    for (const OperandType& input : inputs) {
      const int mine = axis - (shape.rank() - input.shape.rank());
      const bool has_axis = input.present && mine >= 0 && input.shape[mine] == shape[axis];
      // An operand that lacks the axis, or has size 1 there, is whole on every shard.
      rule.inputs.push_back(has_axis ? Spread::on(mine) : Spread{});
    }
    rule.outputs.push_back(Spread::on(axis));
    rules.push_back(std::move(rule));
  }
  return rules;
}

// f(a1 + a2, b1 + b2) = f(a1, b1) + f(a2, b2): all inputs must be partial sums at once. A whole
// input beside partial sums would be added once on each shard.
std::vector<ShardingRule> shard_linear(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs,
                                       const Attrs& attrs) {
  auto rules = shard_elementwise(inputs, outputs, attrs);
  rules.push_back({std::vector<Spread>(inputs.size(), Spread::sum()), {Spread::sum()}});
  return rules;
}

// f(a1 + a2, b) = f(a1, b) + f(a2, b): only input 0 may be partial sums.
std::vector<ShardingRule> shard_linear_in_first(const std::vector<OperandType>& inputs,
                                                const std::vector<OperandType>& outputs,
                                                const Attrs& attrs) {
  auto rules = shard_elementwise(inputs, outputs, attrs);
  ShardingRule partial{std::vector<Spread>(inputs.size()), {Spread::sum()}};
  partial.inputs[0] = Spread::sum();
  rules.push_back(std::move(partial));
  return rules;
}

// One rule per input, never two inputs at once: (a1 + a2)(b1 + b2) is not a1 b1 + a2 b2.
std::vector<ShardingRule> shard_multilinear(const std::vector<OperandType>& inputs,
                                            const std::vector<OperandType>& outputs,
                                            const Attrs& attrs) {
  auto rules = shard_elementwise(inputs, outputs, attrs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ShardingRule partial{std::vector<Spread>(inputs.size()), {Spread::sum()}};
    partial.inputs[i] = Spread::sum();
    rules.push_back(std::move(partial));
  }
  return rules;
}

}  // namespace leat
