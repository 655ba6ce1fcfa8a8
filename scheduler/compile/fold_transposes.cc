#include <algorithm>

#include "ops/graph/op.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// True for a permutation that exchanges the last two axes and keeps the others.
bool is_matrix_transpose(const std::vector<int64_t>& perm) {
  const auto rank = static_cast<int64_t>(perm.size());
  if (rank < 2 || perm[static_cast<size_t>(rank - 1)] != rank - 2 ||
      perm[static_cast<size_t>(rank - 2)] != rank - 1)
    return false;
  for (int64_t i = 0; i + 2 < rank; ++i) {
    if (perm[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

class TransposeFolding {
 public:
  TransposeFolding(Graph& graph, const Borders& borders)
      : graph_(graph),
        borders_(borders),
        consumers_(graph.consumers()),
        product_(graph.catalogue().find("leat.MatMul")) {}

  void run() {
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (is_op(node, "MatMul") || is_op(node, "Gemm") || node.op == product_) {
        fold(id, 0, "transA");
        fold(id, 1, "transB");
      }
    }
  }

 private:
  // The producer of a value if the node `reader`, on the same device, is all that needs it.
  NodeId producer_for(ValueId value, NodeId reader) const {
    const NodeId id = value == kNone ? kNone : graph_.value(value).producer;
    if (id == kNone || graph_.node(id).outputs.size() != 1 || !graph_.node(id).after.empty() ||
        graph_.node(id).device != graph_.node(reader).device)
      return kNone;
    const auto& fetches = borders_.fetches;
    const bool fetched = std::find(fetches.begin(), fetches.end(), value) != fetches.end();
    return fetched || consumers_[value].size() != 1 ? kNone : id;
  }

  // Lets a product read what a Transpose before its operand reads. A Cast may be between them: it
  // converts the elements before the product transposes them.
  void fold(NodeId id, size_t operand, const char* attribute) {
    NodeId reader = id;
    ValueId* input = &graph_.node(id).inputs[operand];
    NodeId before = producer_for(*input, reader);
    if (before != kNone && is_op(graph_.node(before), "Cast")) {
      // Both operands would change with the Cast, and one alone would be transposed.
      const auto& operands = graph_.node(id).inputs;
      if (std::count(operands.begin(), operands.end(), *input) > 1) return;
      reader = before;
      input = &graph_.node(before).inputs[0];
      before = producer_for(*input, reader);
    }
    if (before == kNone || !is_op(graph_.node(before), "Transpose")) return;
    // A batch of matrices A may share one B: as A is, it is one tall product, transposed it is not.
    const auto perm = attr_ints(graph_.node(before).attrs, "perm");
    if (!is_matrix_transpose(perm) || (operand == 0 && perm.size() > 2)) return;
    *input = graph_.node(before).inputs[0];
    Node& product = graph_.node(id);
    if (is_op(product, "MatMul")) product.op = product_;
    product.attrs[attribute] = int64_t{attr_int(product.attrs, attribute) == 0};
  }

  Graph& graph_;
  const Borders& borders_;
  const std::vector<std::vector<NodeId>> consumers_;
  const OpDef* product_;
};

}  // namespace

Graph fold_transposes(Graph graph, const Borders& borders) {
  TransposeFolding(graph, borders).run();
  return graph;
}

}  // namespace leat
