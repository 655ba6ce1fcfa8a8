// The rules that all elementwise ops share: row tiles, layouts and sharding. An op is elementwise
// here if element i of output 0 depends on element i of each input alone, after numpy's broadcast.
// All rules see concrete types; none looks at the values of operands.
#pragma once

#include <vector>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Tiles of rows of dimension 0. Operands that broadcast over it are whole. There are none for a
// scalar, for an output of at most one row, and for more than 32 inputs (they are bits of a set).
Tiling elementwise_tiling(const OpTypes& types);
// Operands of the output's shape may be blocked if all others are single elements, for float
// outputs of rank 4 whose channels are a multiple of 16. No elementwise op prefers the layout.
LayoutSupport elementwise_layouts(const OpTypes& types);

// One rule for each axis of output 0: operands that have the axis are split along it.
std::vector<ShardingRule> shard_elementwise(const std::vector<OperandType>& inputs,
                                            const std::vector<OperandType>& outputs, const Attrs&);
// These rules, and one for ops that are linear in all inputs at once: partial sums of the inputs
// give a partial sum.
std::vector<ShardingRule> shard_linear(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs, const Attrs&);
// These rules, and one for ops that are linear in input 0 while the others are whole (x / c, the
// gradients of activations).
std::vector<ShardingRule> shard_linear_in_first(const std::vector<OperandType>& inputs,
                                                const std::vector<OperandType>& outputs,
                                                const Attrs&);
// These rules, and one per input for ops that are linear in each input while the others are whole
// (a product).
std::vector<ShardingRule> shard_multilinear(const std::vector<OperandType>& inputs,
                                            const std::vector<OperandType>& outputs, const Attrs&);

}  // namespace leat
