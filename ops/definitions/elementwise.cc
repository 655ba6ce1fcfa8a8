#include "ops/definitions/elementwise.h"

#include <algorithm>

namespace leat {
namespace {

bool same_shape_as_output(const OperandType& input, const OpTypes& types) {
  return input.present && input.shape == types.outputs[0].shape;
}

}  // namespace

Tiling elementwise_tiling(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
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

LayoutSupport elementwise_layouts(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  const bool fits = shape.rank() == 4 && shape[1] > 0 && shape[1] % 16 == 0;
  if (!fits || !is_float(types.outputs[0].dtype) || types.inputs.size() > 32) return {};
  LayoutSupport support{0, 1, false};
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    const OperandType& input = types.inputs[i];
    if (!input.present) continue;
    if (same_shape_as_output(input, types)) {
      if (!is_float(input.dtype)) return {};
      support.inputs |= 1u << i;
    } else if (input.shape.elements() != 1) {
      return {};
    }
  }
  return support.inputs == 0 ? LayoutSupport{} : support;
}

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
      rule.inputs.push_back(has_axis ? Spread::on(mine) : Spread{});
    }
    rule.outputs.push_back(Spread::on(axis));
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<ShardingRule> shard_linear(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs,
                                       const Attrs& attrs) {
  auto rules = shard_elementwise(inputs, outputs, attrs);
  rules.push_back({std::vector<Spread>(inputs.size(), Spread::sum()), {Spread::sum()}});
  return rules;
}

std::vector<ShardingRule> shard_linear_in_first(const std::vector<OperandType>& inputs,
                                                const std::vector<OperandType>& outputs,
                                                const Attrs& attrs) {
  auto rules = shard_elementwise(inputs, outputs, attrs);
  ShardingRule partial{std::vector<Spread>(inputs.size()), {Spread::sum()}};
  partial.inputs[0] = Spread::sum();
  rules.push_back(std::move(partial));
  return rules;
}

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
