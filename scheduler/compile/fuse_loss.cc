#include <map>
#include <optional>
#include <set>

#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/part_rewriter.h"

namespace leat {
namespace {

constexpr size_t kScores = 0, kLabels = 1, kWeights = 2;  // inputs of the loss
constexpr size_t kDLoss = 0, kLogProb = 1;                // inputs of its gradient

// A loss that can be replaced.
struct LossPlan {
  std::vector<NodeId> gradients;
  ValueId narrow = kNone;  // the scores in 16 bits, if they were converted
  ValueId scores = kNone;  // of the new graph, once the loss is replaced
  ValueId stats = kNone;   // likewise
};
// A row of nodes between values in 16 bits and the same in float: a Cast, and before or behind it a
// Reshape or none.
struct Conversion {
  NodeId reshape = kNone, cast = kNone;
};

class LossFusion {
 public:
  LossFusion(const Graph& graph, const Borders& borders, const std::vector<uint32_t>& depth,
             const std::string& kind)
      : graph_(graph),
        rewriter_(graph, borders, depth),
        loss_(rewriter_.op_for("leat.CrossEntropy", kind)),
        grad_(rewriter_.op_for("leat.CrossEntropyGrad", kind)) {
    for (NodeId id = 0; id < graph.nodes(); ++id) plan(id);
  }

  bool finds_any() const { return !plans_.empty(); }

  Result<Graph> run(Borders& borders, std::vector<uint32_t>& depth) {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    for (const NodeId id : order) {
      if (const auto plan = plans_.find(id); plan != plans_.end())
        replace_loss(id, plan->second);
      else if (const auto of = loss_of_.find(id); of != loss_of_.end())
        replace_gradient(id, plans_.at(of->second));
      else if (casts_.contains(id))
        leave_out(id);
      else if (const auto dtype = reshapes_.find(id); dtype != reshapes_.end())
        reshape(id, dtype->second);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish(borders, depth);
  }

 private:
  void plan(NodeId id) {
    const Node& node = graph_.node(id);
    if (!loss_ || !grad_ || !is_op(node, "SoftmaxCrossEntropyLoss") || node.outputs.size() != 2)
      return;
    const ValueId log_prob = node.outputs[1];
    const DType dtype = rewriter_.type(node.inputs[kScores]).dtype;
    if (log_prob == kNone || rewriter_.is_fetched(log_prob) ||
        (dtype != DType::f32 && dtype != DType::f64))
      return;
    LossPlan found;
    for (const NodeId reader : rewriter_.readers(log_prob)) {
      const Node& gradient = graph_.node(reader);
      if (!is_op(gradient, "leat.SoftmaxCrossEntropyLossGrad") ||
          gradient.inputs[kLogProb] != log_prob)
        return;
      found.gradients.push_back(reader);
    }
    find_narrow(id, found);
    for (const NodeId gradient : found.gradients) loss_of_[gradient] = id;
    plans_[id] = std::move(found);
  }

  // Finds the 16-bit scores, if all gradients are converted back to their type.
  void find_narrow(NodeId id, LossPlan& found) {
    const auto before = conversion_before(id);
    if (!before) return;
    const ValueId scores = graph_.node(before->cast).inputs[0];
    const DType narrow = rewriter_.type(scores).dtype;
    std::vector<Conversion> conversions = {*before};
    for (const NodeId gradient : found.gradients) {
      const auto behind = conversion_behind(gradient, narrow);
      if (!behind) return;
      conversions.push_back(*behind);
    }
    found.narrow = scores;
    for (const Conversion& each : conversions) {
      casts_.insert(each.cast);
      if (each.reshape != kNone) reshapes_[each.reshape] = narrow;
    }
  }
  // The conversion from 16 bits of the scores that the loss alone reads.
  std::optional<Conversion> conversion_before(NodeId loss) const {
    Conversion found;
    NodeId reader = loss;
    ValueId scores = graph_.node(loss).inputs[kScores];
    const Node* node = rewriter_.made_by(scores);
    if (node && is_op(*node, "Reshape") && rewriter_.only_reader(scores) == reader) {
      found.reshape = reader = rewriter_.producer(scores);
      scores = node->inputs[0];
      node = rewriter_.made_by(scores);
    }
    if (!node || !is_op(*node, "Cast") || rewriter_.only_reader(scores) != reader ||
        !rewriter_.is_movable(rewriter_.producer(scores)) ||
        rewriter_.type(scores).dtype != DType::f32 ||
        !is_16bit_float(rewriter_.type(node->inputs[0]).dtype))
      return std::nullopt;
    found.cast = rewriter_.producer(scores);
    return found;
  }
  // The conversion to 16 bits that alone reads what the gradient makes.
  std::optional<Conversion> conversion_behind(NodeId gradient, DType narrow) const {
    Conversion found;
    NodeId reader = rewriter_.only_reader(graph_.node(gradient).outputs[0]);
    if (reader != kNone && is_op(graph_.node(reader), "Reshape")) {
      found.reshape = reader;
      reader = rewriter_.only_reader(graph_.node(reader).outputs[0]);
    }
    if (reader == kNone || !is_op(graph_.node(reader), "Cast") || !rewriter_.is_movable(reader) ||
        rewriter_.type(graph_.node(reader).outputs[0]).dtype != narrow)
      return std::nullopt;
    found.cast = reader;
    return found;
  }

  // Readers of the Cast read what it would convert, which has its type already.
  void leave_out(NodeId cast) {
    const Node& old = graph_.node(cast);
    rewriter_.map_value(old.outputs[0], rewriter_.value(old.inputs[0]));
  }
  void reshape(NodeId id, DType dtype) {
    const NodeId made = rewriter_.copy(id);
    rewriter_.to().value(rewriter_.to().node(made).outputs[0]).type.dtype = dtype;
  }
  ValueType of_dtype(ValueId value, DType dtype) const {
    ValueType type = rewriter_.type(value);
    type.dtype = dtype;
    return type;
  }

  void replace_loss(NodeId id, LossPlan& plan) {
    const Node& old = graph_.node(id);
    plan.scores = rewriter_.value(old.inputs[kScores]);
    ValueType stats = rewriter_.type(old.inputs[kLabels]);
    stats.dtype = rewriter_.type(old.outputs[0]).dtype;
    SymbolicShape shape{Dim::of(2)};
    for (int i = 0; i < stats.shape.rank(); ++i) shape.push_back(stats.shape[i]);
    stats.shape = shape;
    std::vector<ValueId> inputs = {plan.scores, rewriter_.value(old.inputs[kLabels])};
    if (old.inputs.size() > kWeights) inputs.push_back(rewriter_.value(old.inputs[kWeights]));
    const NodeId made = rewriter_.add(id, *loss_, std::move(inputs), old.attrs,
                                      {rewriter_.type(old.outputs[0]), stats});
    rewriter_.replace(old.outputs[0], rewriter_.to().node(made).outputs[0]);
    plan.stats = rewriter_.to().node(made).outputs[1];
  }

  void replace_gradient(NodeId id, const LossPlan& plan) {
    const Node& old = graph_.node(id);
    std::vector<ValueId> inputs = {rewriter_.value(old.inputs[kDLoss]), plan.scores, plan.stats};
    for (size_t i = 2; i < old.inputs.size(); ++i) inputs.push_back(rewriter_.value(old.inputs[i]));
    const DType dtype = plan.narrow == kNone ? rewriter_.type(old.outputs[0]).dtype
                                             : rewriter_.type(plan.narrow).dtype;
    const NodeId made =
        rewriter_.add(id, *grad_, std::move(inputs), old.attrs, {of_dtype(old.outputs[0], dtype)});
    rewriter_.replace(old.outputs[0], rewriter_.to().node(made).outputs[0]);
  }

  const Graph& graph_;
  PartRewriter rewriter_;
  const OpDef *loss_, *grad_;
  std::map<NodeId, LossPlan> plans_;  // by loss
  std::map<NodeId, NodeId> loss_of_;  // by gradient
  std::set<NodeId> casts_;            // that are left out
  std::map<NodeId, DType> reshapes_;  // that get another dtype
};

}  // namespace

Result<Graph> fuse_loss(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                        const std::string& kind) {
  const std::vector<uint32_t> old_depth = depth;
  LossFusion fusion(graph, borders, old_depth, kind);
  if (!fusion.finds_any()) return graph;
  return fusion.run(borders, depth);
}

}  // namespace leat
