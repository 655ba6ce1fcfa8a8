// Steps that write nothing when their numbers are not finite. One number, the guard, is made of all
// that the step fetches and of all that goes into its variables, and every write gets it:
//
//   guard = sum of (x * 0) over all of their elements x: 0, and NaN if some x is NaN or infinite
//   ApplySgd(var, grad, lr)  ->  ApplySgd(var, grad, lr, , guard)
//
// This happens before a strategy makes the shards. By then the fetched values and the
// inputs of writes are the same on all shards. So every device that writes computes the same guard
// from the same bits, however many workers there are, and also when a step is repeated.
#include <algorithm>
#include <set>

#include "devices/base/text.h"
#include "ops/cpu/guarded_kernel.h"
#include "ops/graph/builder.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"

namespace leat {
namespace {

class WriteGuard {
 public:
  explicit WriteGuard(Graph& graph) : graph_(graph), builder_(graph) {}

  Status run(Borders& borders) {
    for (const ValueId fetch : borders.fetches) watch(fetch);
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      if (!graph_.node(id).op->writes.empty()) LEAT_RETURN_IF_ERROR(watch_write(id));
    }
    if (writes_.empty()) return {};
    const ValueId guard = builder_.named(sum(), std::string(kGuard));
    LEAT_RETURN_IF_ERROR(builder_.status().while_doing("guarding what a step writes"));
    for (const auto& [id, input] : writes_) {
      std::vector<ValueId>& inputs = graph_.node(id).inputs;
      inputs.resize(std::max(inputs.size(), input + 1), kNone);
      inputs[input] = guard;
    }
    borders.fetches.push_back(guard);
    if (!graph_.topological_order().ok()) {
      return unimplemented(cat("'", graph_.name,
                               "': expected all that a step fetches and writes to be there before "
                               "its first write, so that it can be skipped; some of it comes after "
                               "a write"));
    }
    return Inference(graph_).run();
  }

 private:
  void watch(ValueId value) {
    if (value == kNone) return;
    const ValueType& type = graph_.value(value).type;
    if (type.kind != ValueKind::tensor || !is_float(type.dtype)) return;
    if (known_.insert(value).second) watched_.push_back(value);
  }

  Status watch_write(NodeId id) {
    const Node& node = graph_.node(id);
    const auto& operands = node.op->inputs;
    const auto guard = std::find_if(operands.begin(), operands.end(),
                                    [](const Operand& each) { return each.name == kGuard; });
    if (guard == operands.end()) {
      return unimplemented(cat(graph_.describe_node(id),
                               ": a step cannot leave out what it does; expected writes to "
                               "variables alone in steps that are skipped"));
    }
    writes_.emplace_back(id, static_cast<size_t>(guard - operands.begin()));
    for (const ValueId input : node.inputs) watch(input);
    return {};
  }

  // 0, or NaN.
  ValueId check(ValueId value) {
    const ValueType type = graph_.value(value).type;
    ValueId sum = builder_.op("Mul", {value, builder_.scalar(type.dtype, 0)});
    if (type.shape.rank() > 0) sum = builder_.op("ReduceSum", {sum}, {{"keepdims", int64_t{0}}});
    if (type.dtype == DType::f32) return sum;
    return builder_.op("Cast", {sum}, {{"to", int64_t{dtype_onnx_code(DType::f32)}}});
  }

  ValueId sum() {
    ValueId all = kNone;
    for (const ValueId value : watched_) {
      const ValueId one = check(value);
      all = all == kNone ? one : builder_.op("Add", {all, one});
    }
    return all == kNone ? builder_.scalar(DType::f32, 0) : all;
  }

  Graph& graph_;
  GraphBuilder builder_;
  std::vector<ValueId> watched_;
  std::set<ValueId> known_;
  std::vector<std::pair<NodeId, size_t>> writes_;  // and the input that is the guard
};

}  // namespace

Result<Graph> guard_writes(Graph graph, Borders& borders) {
  LEAT_RETURN_IF_ERROR(WriteGuard(graph).run(borders));
  return graph;
}

}  // namespace leat
