// ONNX's If, Loop and Scan. A plan is static: its nodes and their memory are known before the first
// step. So these ops become ordinary nodes when a graph is loaded, and everything behind that point
// (gradients, strategies, placement, memory) needs to know nothing of them.
//
//   Scan, and a Loop whose iterations are known: the body's nodes once for each iteration.
//   An If whose condition is known: the nodes of its branch.
//   An If whose condition only a step knows: the nodes of both branches, between leat.Enter and
//   leat.Merge (ops/definitions/branches.h). A step runs those of one branch.
//   A Loop that a step may leave early: the iterations up to the bound M, each of them a branch
//   that is taken while the loop goes on.
//   A Loop with the attribute `bound`, Leat's own: as many iterations as the bound, of which a step
//   runs those up to its M or until its condition ends it. leat.LoopEnd fails a step that would go
//   on. Scan outputs have as many entries as the bound, zeros for iterations that did not run.
//   leat.MapReduce and leat.MapGather, which share items among the shards (map_copier.h).
#pragma once

#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

// The most nodes, and iterations, that the iterations and branches of one graph may become.
inline constexpr size_t kMostUnrolledNodes = 200'000;

// True for If, Loop and Scan of ONNX, leat.MapReduce and leat.MapGather.
bool is_control_flow(const OpDef& op);

// True if the graph has one of them.
bool has_control_flow(const Graph& graph);

// Replaces all of them, in regions, too; a graph without any is returned as it is. Names of values,
// devices and control edges of the graph itself are kept; nodes of a region are called after the
// node that has the region ("scan/3/add"). Random nodes draw other numbers in each iteration. The
// values of the result have types.
//
// invalid_argument for a graph that is not valid, or beyond kMostUnrolledNodes. unimplemented,
// with the node and the reason, for what no plan can have: a Loop without a bound that is known, a
// Scan of a length that is not known, scan outputs of a Loop without `bound` that may end early, and
// regions with layers or effects.
Result<Graph> expand_control_flow(const Graph& graph);

}  // namespace leat
