// The machinery of elementwise ops: one kernel that walks broadcast operands and calls an inner
// loop over contiguous output elements, and the tiling, layout and sharding rules that all of them
// share.
#pragma once

#include <vector>

#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// y[i] = f(x[0][i * steps[0]], x[1][i * steps[1]], ...) for i in [0, n). y is contiguous and may be
// the same memory as an x that has step 1. An absent operand is null. `params` are the op's
// attributes.
using Loop = void (*)(void* y, const void* const* x, const int64_t* steps, int64_t n,
                      const double* params);

inline constexpr int kMaxLoopInputs = 4;

// Output 0 from all of the inputs at once, each broadcast to it; at most kMaxLoopInputs of them. A
// null loop means that the op has no kernel for these types.
Result<std::unique_ptr<Kernel>> make_elementwise(const KernelSetup& setup, Loop loop,
                                                 std::vector<double> params = {});

// Output 0 = f(...f(f(x0, x1), x2)..., xn), any number of inputs. `copy` serves a single input.
Result<std::unique_ptr<Kernel>> make_elementwise_fold(const KernelSetup& setup, Loop binary,
                                                      Loop copy);

// The same as `make_elementwise`, after a look at the elements of input `divisor` (integers) that a
// tile reads: a zero fails the step.
Result<std::unique_ptr<Kernel>> make_elementwise_division(const KernelSetup& setup, Loop loop,
                                                          int divisor);

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
