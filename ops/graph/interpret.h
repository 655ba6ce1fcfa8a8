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

struct InterpretOptions {
  uint64_t seed = 0;
  uint64_t step = 0;
  JobResources* resources = nullptr;  // for variables and queues
  Device* device = nullptr;           // of the resources
  int64_t tile_rows = 0;              // forced on ops that can be cut into rows; 0: each op chooses
  bool reverse_tiles = false;         // runs tiles from last to first: the order must not matter
};

// Runs one op. Absent inputs are invalid tensors. It computes and returns `outputs` tensors.
// `subject` names the op in messages. If a kernel is blocked, the error is failed_precondition.
Result<std::vector<Tensor>> run_op(const OpDef& op, const Attrs& attrs,
                                   const std::vector<Tensor>& inputs, int outputs,
                                   const std::string& subject, const InterpretOptions& options = {},
                                   const Node* node = nullptr);

// Returns the values of `fetches`, given `feeds` (which may be any values of the graph). It runs
// only the nodes that `fetches` and `targets` depend on, and the targets.
Result<std::vector<Tensor>> interpret(const Graph& graph, const std::map<ValueId, Tensor>& feeds,
                                      const std::vector<ValueId>& fetches,
                                      const std::vector<NodeId>& targets = {},
                                      const InterpretOptions& options = {});

}  // namespace leat
