// Evaluates ops one after another on fresh host memory, with the CPU kernels. Slow and simple: it
// folds constants, checks gradients, and is the oracle that the executor is compared with.
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
  int64_t tile_rows = 0;       // forced on ops that can be cut into rows; 0: their own choice
  bool reverse_tiles = false;  // run tiles last to first: the order must not matter
};

// One op. Absent inputs are invalid tensors. Returns `outputs` tensors (all of them wanted).
// `subject` stands in messages. A kernel that is blocked is an error here (failed_precondition).
Result<std::vector<Tensor>> run_op(const OpDef& op, const Attrs& attrs,
                                   const std::vector<Tensor>& inputs, int outputs,
                                   const std::string& subject, const InterpretOptions& options = {},
                                   const Node* node = nullptr);

// The values of `fetches`, given `feeds` (any value of the graph may be fed), running only what
// they need, and `targets` (with what they need).
Result<std::vector<Tensor>> interpret(const Graph& graph, const std::map<ValueId, Tensor>& feeds,
                                      const std::vector<ValueId>& fetches,
                                      const std::vector<NodeId>& targets = {},
                                      const InterpretOptions& options = {});

}  // namespace leat
