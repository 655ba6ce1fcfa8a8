// An interpreter that evaluates ops one after another on fresh host memory, with the CPU kernels.
// It is slow and simple: constant folding uses it, tests check gradients with it, and its results
// are the reference for those of the executor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"
#include "ops/graph/op.h"

namespace leat {

// Threads: any. Each call has memory of its own and runs everything on the calling thread; calls
// that share resources are ordered by the caller.
struct InterpretOptions {
  // The job's seed and step, for random ops and leat.Step.
  uint64_t seed = 0;
  uint64_t step = 0;
  // For variables, queues and data sets. Without it, an op that needs a resource returns
  // failed_precondition.
  JobResources* resources = nullptr;
  Device* device = nullptr;    // of the resources
  int64_t tile_rows = 0;       // forced on ops that can be cut into rows; 0: each op chooses
  bool reverse_tiles = false;  // runs tiles from last to first: the order must not matter
};

// Runs one op. Absent inputs are invalid tensors. It computes and returns `outputs` tensors.
// `subject` names the op in messages. `node` gives random ops and readers their source and first
// row; without it they are those of node 0.
//
// invalid_argument if inference refuses the op; unimplemented if it has no CPU kernel or if the
// shape of an output does not follow from the inputs; failed_precondition if a kernel is blocked,
// since nothing else runs that could release it; else the error with which the kernel failed.
Result<std::vector<Tensor>> run_op(const OpDef& op, const Attrs& attrs,
                                   const std::vector<Tensor>& inputs, int outputs,
                                   const std::string& subject, const InterpretOptions& options = {},
                                   const Node* node = nullptr);

// Returns the values of `fetches`, in their order, given `feeds` (which may be any values of the
// graph; a fed value is not computed). It runs only the nodes that `fetches` and `targets` depend
// on, and the targets, in topological order.
//
// Each op is inferred again from the values at hand, so the graph need not have types; its
// references must exist (see check_limits()). Errors are those of run_op(), and invalid_argument
// for a graph with a cycle or for a value that a node or a fetch needs and that is neither fed nor
// computed. The writes to variables of the nodes that ran before the error stay.
Result<std::vector<Tensor>> interpret(const Graph& graph, const std::map<ValueId, Tensor>& feeds,
                                      const std::vector<ValueId>& fetches,
                                      const std::vector<NodeId>& targets = {},
                                      const InterpretOptions& options = {});

}  // namespace leat
