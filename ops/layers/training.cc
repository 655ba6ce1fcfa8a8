#include <algorithm>

#include "devices/base/text.h"
#include "ops/layers/copy.h"
#include "ops/layers/layers.h"
#include "ops/validate.h"

namespace leat {
namespace {

bool is_op(const Node& node, std::string_view full_name) {
  return node.op->full_name() == full_name;
}

// Rebuilds a graph in its form for training or for inference.
class Former {
 public:
  Former(const Graph& graph, bool training)
      : graph_(graph), copy_(graph), training_(training), consumers_(graph.consumers()) {}

  Result<Graph> run() {
    LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph_.topological_order());
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (is_op(node, "Dropout")) {
        LEAT_RETURN_IF_ERROR(form_dropout(id));
      } else if (is_op(node, "BatchNormalization")) {
        LEAT_RETURN_IF_ERROR(form_batch_norm(id));
      } else if (!is_flag(id) && !assigns_statistics(node)) {
        copy_.copy(id);
      }
    }
    Graph formed = std::move(copy_).finish();
    LEAT_RETURN_IF_ERROR(validate(formed));
    return formed;
  }

 private:
  const Node* producer(ValueId value) const {
    if (value == kNone || graph_.value(value).producer == kNone) return nullptr;
    return &graph_.node(graph_.value(value).producer);
  }

  // A constant that only says to Dropouts whether they train.
  bool is_flag(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "Constant") || node.outputs.size() != 1 || node.outputs[0] == kNone) {
      return false;
    }
    const ValueId value = node.outputs[0];
    const auto& outputs = graph_.outputs();
    const auto& readers = consumers_[value];
    return !readers.empty() && std::find(outputs.begin(), outputs.end(), value) == outputs.end() &&
           std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
             const Node& n = graph_.node(reader);
             return is_op(n, "Dropout") && n.inputs.size() > 2 && n.inputs[2] == value &&
                    n.inputs[0] != value && n.inputs[1] != value;
           });
  }

  // The statistics of a batch, on their way to a variable: inference moves none.
  bool assigns_statistics(const Node& node) const {
    if (training_ || !is_op(node, "leat.Assign") || node.inputs.size() != 2) return false;
    const Node* from = producer(node.inputs[1]);
    return from != nullptr && is_op(*from, "BatchNormalization") &&
           graph_.value(node.inputs[1]).index > 0;
  }

  Status form_dropout(NodeId id) {
    if (flag_ == kNone) {
      LEAT_ASSIGN_OR_RETURN(
          const NodeId constant,
          copy_.to().add_node("", "Constant", {}, {{"value", Tensor::scalar<bool>(training_)}}, 1));
      flag_ = copy_.to().node(constant).outputs[0];
      copy_.to().set_value_name(flag_, "training");
    }
    const NodeId now = copy_.copy(id);
    copy_.to().node(now).inputs.resize(3, kNone);
    copy_.to().node(now).inputs[2] = flag_;
    return {};
  }

  Status form_batch_norm(NodeId id) {
    const Node& node = graph_.node(id);
    const bool trains = attr_int(node.attrs, "training_mode") != 0;
    const NodeId now = copy_.copy(id);
    if (trains == training_ || node.inputs.size() != 5) return {};
    if (training_) return start_training(node, now);
    copy_.to().node(now).attrs["training_mode"] = int64_t{0};
    copy_.to().node(now).outputs.resize(1, kNone);
    // Who asks for the new statistics gets the running ones.
    for (size_t i = 1; i < node.outputs.size() && i < 3; ++i) {
      if (node.outputs[i] != kNone) copy_.put(node.outputs[i], copy_.at(node.inputs[i + 2]));
    }
    return {};
  }

  // Statistics that no variable holds cannot move: such a node stays as it is.
  Status start_training(const Node& node, NodeId now) {
    const Node *mean = producer(node.inputs[3]), *variance = producer(node.inputs[4]);
    if (mean == nullptr || variance == nullptr || !is_op(*mean, "leat.Read") ||
        !is_op(*variance, "leat.Read")) {
      return {};
    }
    copy_.to().node(now).attrs["training_mode"] = int64_t{1};
    for (int i = 1; i <= 2; ++i) {
      const ValueId next = copy_.to().ensure_output(now, i);
      const ValueId resource = copy_.at((i == 1 ? mean : variance)->inputs[0]);
      LEAT_RETURN_IF_ERROR(copy_.to().add_node("leat", "Assign", {resource, next}, {}, 0).status());
    }
    return {};
  }

  const Graph& graph_;
  GraphCopy copy_;
  const bool training_;
  const std::vector<std::vector<NodeId>> consumers_;
  ValueId flag_ = kNone;
};

}  // namespace

Result<Graph> set_training(const Graph& graph, bool training) {
  return Former(graph, training).run();
}

}  // namespace leat
