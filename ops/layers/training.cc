#include <algorithm>
#include <map>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/validate.h"
#include "ops/layers/copy.h"
#include "ops/layers/layers.h"

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
    // The topological order matters: of several uses of one variable, the last in this order keeps
    // the statistics.
    LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph_.topological_order());
    if (training_) find_statistics();
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
  // The node that makes a value; null for an input of the graph or an absent value.
  const Node* producer(ValueId value) const {
    if (value == kNone || graph_.value(value).producer == kNone) return nullptr;
    return &graph_.node(graph_.value(value).producer);
  }

  // True for a constant that is only the training flag of Dropouts.
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

  // True if the node assigns the statistics of a batch to a variable; inference has no such node.
  bool assigns_statistics(const Node& node) const {
    if (training_ || !is_op(node, "leat.Assign") || node.inputs.size() != 2) return false;
    const Node* from = producer(node.inputs[1]);
    return from != nullptr && is_op(*from, "BatchNormalization") &&
           graph_.value(node.inputs[1]).index > 0;
  }

  // All Dropouts get one new flag as input 2, which is made at the first of them.
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
    if (node.inputs.size() != 5) return {};
    // A node that trains already keeps its mode and gets the assignments that it lacks.
    if (training_) return start_training(node, now);
    if (!trains) return {};
    copy_.to().node(now).attrs["training_mode"] = int64_t{0};
    copy_.to().node(now).outputs.resize(1, kNone);
    // A reader of the new statistics gets the running ones.
    for (size_t i = 1; i < node.outputs.size() && i < 3; ++i) {
      if (node.outputs[i] != kNone) copy_.put(node.outputs[i], copy_.at(node.inputs[i + 2]));
    }
    return {};
  }

  // The variable that a statistic is read from, if need be through nodes that pass it on. For a
  // statistic that an earlier use updated, it is the variable of that use. kNone if there is none.
  // `read` gets the value that was read, and `branches` the borders of branches on the way, from
  // the innermost one on.
  ValueId variable_of(ValueId statistic, ValueId* read = nullptr,
                      std::vector<const Node*>* branches = nullptr) const {
    for (const Node* from = producer(statistic); from != nullptr; from = producer(statistic)) {
      if (read != nullptr) *read = statistic;
      if (is_op(*from, "leat.Read")) return from->inputs[0];
      if (is_op(*from, "leat.Enter")) {
        if (branches != nullptr) branches->push_back(from);
        statistic = from->inputs[0];
        continue;
      }
      const uint32_t index = graph_.value(statistic).index;
      const bool next = is_op(*from, "BatchNormalization") && from->inputs.size() == 5 &&
                        (index == 1 || index == 2);
      if (!next && !is_op(*from, "Identity")) return kNone;
      statistic = from->inputs[next ? index + 2 : 0];
    }
    return kNone;
  }

  // Finds the variables from which BatchNormalizations read statistics, and how often; and the
  // variables that the graph itself writes.
  void find_statistics() {
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (is_op(node, "leat.Assign")) assigned_.insert(node.inputs[0]);
      if (!is_op(node, "BatchNormalization") || node.inputs.size() != 5) continue;
      for (const size_t i : {3, 4}) ++uses_[variable_of(node.inputs[i])];
    }
  }

  // Statistics that are in no variable cannot be updated: such a node stays as it is. If several
  // nodes share a variable, each continues from the result of the one before it, in the order of
  // the program, and the result of the last one is kept.
  Status start_training(const Node& node, NodeId now) {
    std::vector<const Node*> branches;
    ValueId reads[2] = {kNone, kNone};
    const ValueId variables[] = {variable_of(node.inputs[3], &reads[0], &branches),
                                 variable_of(node.inputs[4], &reads[1])};
    if (variables[0] == kNone || variables[1] == kNone) return {};
    copy_.to().node(now).attrs["training_mode"] = int64_t{1};
    // Output 1 updates the mean (input 3), output 2 the variance (input 4).
    for (int i = 1; i <= 2; ++i) {
      const ValueId variable = variables[i - 1];
      if (assigned_.contains(variable)) continue;
      const auto before = latest_.find(variable);
      if (before != latest_.end()) {
        copy_.to().node(now).inputs[static_cast<size_t>(i) + 2] = before->second;
      }
      const ValueId prior = before != latest_.end() ? before->second : copy_.at(reads[i - 1]);
      LEAT_ASSIGN_OR_RETURN(const ValueId next,
                            kept_in_branches(branches, copy_.to().ensure_output(now, i), prior));
      latest_[variable] = next;
      if (--uses_[variable] > 0) continue;
      LEAT_RETURN_IF_ERROR(
          copy_.to().add_node("leat", "Assign", {copy_.at(variable), next}, {}, 0).status());
    }
    return {};
  }

  // A step that does not take the branch of a normalization keeps the statistic that it had before.
  Result<ValueId> kept_in_branches(const std::vector<const Node*>& branches, ValueId next,
                                   ValueId prior) {
    for (const Node* enter : branches) {
      const bool taken = attr_int(enter->attrs, "branch", 1) != 0;
      LEAT_ASSIGN_OR_RETURN(
          const NodeId merge,
          copy_.to().add_node(
              "leat", "Merge",
              {copy_.at(enter->inputs[1]), taken ? next : prior, taken ? prior : next}, {}, 1));
      next = copy_.to().node(merge).outputs[0];
    }
    return next;
  }

  const Graph& graph_;
  GraphCopy copy_;
  const bool training_;
  const std::vector<std::vector<NodeId>> consumers_;
  ValueId flag_ = kNone;
  std::set<ValueId> assigned_;         // variables, in the old graph
  std::map<ValueId, int> uses_;        // uses of statistics variables that are still to come
  std::map<ValueId, ValueId> latest_;  // in the new graph: the result of the last use
};

}  // namespace

Result<Graph> set_training(const Graph& graph, bool training) {
  return Former(graph, training).run();
}

}  // namespace leat
