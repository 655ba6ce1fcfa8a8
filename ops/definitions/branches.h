// Values of branches that a step may take or not, and ops that run only if a bool is true.
//
// ops/layers/control_flow.cc puts both branches of an If into the graph, as ordinary nodes:
//
//   entered = leat.Enter (x, condition)            for each value that a branch reads
//   y = leat.Merge (condition, of_then, of_else)   for each output of the If
//
// Merge takes the value of one branch. The other value may be anything, also NaN, or bytes that
// nothing has written. The gradient of an Enter is a leat.Mask: the gradient of its output if the
// branch was taken, and zeros otherwise, so that nothing of the other branch reaches a variable.
//
// A leat.LoopEnd passes an output of a Loop on, unless the step would need more iterations than the
// Loop's bound: then it fails the step.
//
// scheduler/compile/branches.cc finds the nodes whose values only one branch needs, and puts the
// conditional op of each in its place: when.Sqrt is Sqrt with a bool as its first input.
#pragma once

#include <string>
#include <string_view>

#include "ops/graph/op.h"

namespace leat {

// Adds If, Loop, Scan, leat.MapReduce and leat.MapGather, and leat.Merge, Mask, Enter and LoopEnd.
void register_branch_ops(Catalogue& catalogue);

// The domain of the conditional ops. Their names are the full names of the ops that they wrap:
// "MatMul", "leat.MatMul".
inline constexpr std::string_view kWhen = "when";

// True if the op may be left out of a step: it has no effect, and its outputs are tensors of its
// own. Views and constants are not computed, so there is nothing to leave out.
bool may_be_conditional(const OpDef& op);

// The conditional form of an op, without kernels. It has the op's inputs behind its own, the bool
// `condition` of one element. If that is false in a step, the outputs are undefined. `op` must
// outlive the result.
OpDef conditional(const OpDef& op);

// Adds the conditional forms of all ops of the catalogue. REQUIRES: the ops are there.
void register_conditional_ops(Catalogue& catalogue);

}  // namespace leat
