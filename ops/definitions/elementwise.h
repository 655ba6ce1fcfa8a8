// The rules that all elementwise ops share: how they are cut into rows, laid out and sharded.
#pragma once

#include <vector>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Rows of dimension 0. Operands that broadcast over it are whole.
Tiling elementwise_tiling(const OpTypes& types);
// Operands of the output's shape may be blocked when the others are single elements.
LayoutSupport elementwise_layouts(const OpTypes& types);

// One rule for each axis of output 0: operands that have the axis are split along theirs.
std::vector<ShardingRule> shard_elementwise(const std::vector<OperandType>& inputs,
                                            const std::vector<OperandType>& outputs, const Attrs&);
// The same, and linear in all inputs at once: partial sums give a partial sum.
std::vector<ShardingRule> shard_linear(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs, const Attrs&);
// The same, and linear in input 0 while the others are whole (x / c, the gradients of activations).
std::vector<ShardingRule> shard_linear_in_first(const std::vector<OperandType>& inputs,
                                                const std::vector<OperandType>& outputs,
                                                const Attrs&);
// The same, and linear in each input while the others are whole (a product).
std::vector<ShardingRule> shard_multilinear(const std::vector<OperandType>& inputs,
                                            const std::vector<OperandType>& outputs, const Attrs&);

}  // namespace leat
