#include "ops/graph/gradients.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// Builds the gradients of one y. The partial gradients of a value wait in `parts_` until the pass
// has visited all consumers of the value; then they are summed from left to right.
class Reverse {
 public:
  Reverse(Inference& inference, std::span<const ValueId> xs)
      : inference_(inference), graph_(inference.graph()), xs_(xs.begin(), xs.end()) {}

  Result<std::vector<ValueId>> run(ValueId y);

 private:
  class Context;

  bool carries(const Node& node, ValueId output) const;
  void mark_active(const std::vector<NodeId>& order);
  Status differentiate(NodeId id);
  bool reaches(ValueId x, ValueId y, const std::vector<NodeId>& order) const;
  Result<ValueId> filled_like(ValueId like, double value);
  Result<ValueId> total(ValueId value);
  Result<std::vector<ValueId>> emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                    int outputs);
  // The graph grows during the pass, so the table grows with it.
  std::vector<ValueId>& parts(ValueId value) {
    if (parts_.size() < graph_.values()) parts_.resize(graph_.values());
    return parts_[value];
  }
  bool active(ValueId value) const {
    return value != kNone && value < active_.size() && active_[value];
  }

  Inference& inference_;
  Graph& graph_;
  std::vector<ValueId> xs_;
  std::vector<bool> active_;  // by value: reachable from an x
  std::vector<std::vector<ValueId>> parts_;
  NodeId forward_ = kNone;  // the node being differentiated: new nodes take its device
};

class Reverse::Context final : public GradientContext {
 public:
  Context(Reverse& reverse, NodeId id) : reverse_(reverse), graph_(reverse.graph_), id_(id) {}

  const Node& node() const override { return graph_.node(id_); }
  ValueId input(int i) const override {
    const auto& inputs = node().inputs;
    return i < static_cast<int>(inputs.size()) ? inputs[static_cast<size_t>(i)] : kNone;
  }
  ValueId output(int i) const override {
    const auto& outputs = node().outputs;
    return i < static_cast<int>(outputs.size()) ? outputs[static_cast<size_t>(i)] : kNone;
  }
  ValueId grad(int i) const override {
    const ValueId out = output(i);
    if (out == kNone) return kNone;
    auto& parts = reverse_.parts(out);
    return parts.empty() ? kNone : parts.front();  // summed before the visit
  }
  // The node gets a new output, whose type only inference knows.
  ValueId optional_output(int i) override {
    const ValueId value = graph_.ensure_output(id_, i);
    note(reverse_.inference_.infer_more(id_));
    return value;
  }
  bool needs(int i) const override { return reverse_.active(input(i)); }
  const ValueType& type(ValueId value) const override { return graph_.value(value).type; }

  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) override {
    return emit_n(op, std::move(inputs), std::move(attrs), 1)[0];
  }
  std::vector<ValueId> emit_n(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                              int outputs) override {
    auto made = reverse_.emit(op, std::move(inputs), std::move(attrs), outputs);
    if (made.ok()) return *made;
    note(made.status());
    // The rule goes on with a value that exists; differentiate() reports the error after it.
    return std::vector<ValueId>(static_cast<size_t>(outputs), input(0));
  }
  ValueId constant(Tensor value) override {
    return emit("Constant", {}, {{"value", std::move(value)}});
  }
  ValueId scalar(double value, DType dtype) override {
    return constant(Tensor::scalar_of(dtype, value));
  }
  ValueId unbroadcast(ValueId grad, ValueId like) override;

  // Inputs that no x reaches are dropped, so that rules need not ask for each input.
  void set_grad(int i, ValueId grad) override {
    const ValueId value = input(i);
    if (!status_.ok() || !needs(i) || grad == kNone) return;
    const SymbolicShape &expected = type(value).shape, &received = type(grad).shape;
    if (known_to_differ(expected, received)) {
      note(internal_error(cat(graph_.describe_node(id_), ": the gradient of input ", i,
                              " has shape ", graph_.shape_text(received), ", expected ",
                              graph_.shape_text(expected))));
      return;
    }
    reverse_.parts(value).push_back(grad);
  }
  Status error(std::string_view message) const override {
    return invalid_argument(cat(graph_.describe_node(id_), ": ", message));
  }
  const Status& status() const { return status_; }

 private:
  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  Reverse& reverse_;
  Graph& graph_;
  NodeId id_;
  Status status_;
};

// Sums over the leading axes that `like` lacks and over those where it has size 1, then removes the
// leading ones.
ValueId Reverse::Context::unbroadcast(ValueId grad, ValueId like) {
  const SymbolicShape from = type(grad).shape, to = type(like).shape;
  if (from == to) return grad;
  std::vector<int64_t> axes;
  const int extra = from.rank() - to.rank();
  for (int i = 0; i < from.rank(); ++i) {
    // A broadcast of two symbols: which of the operands has size 1, if one has, is not known.
    const bool unrelated = i >= extra && !to[i - extra].is_constant() && !from[i].is_constant() &&
                           to[i - extra].symbol != from[i].symbol;
    if (unrelated) {
      note(error(cat("its gradient needs to know whether ", graph_.dim_text(to[i - extra]), " of ",
                     graph_.shape_text(to), " is 1 or ", graph_.dim_text(from[i]))));
      return grad;
    }
    if (i < extra || (to[i - extra] == Dim::of(1) && !(from[i] == Dim::of(1)))) axes.push_back(i);
  }
  ValueId out = grad;
  if (!axes.empty()) {
    const auto n = static_cast<int64_t>(axes.size());
    out = emit("ReduceSum", {out, constant(Tensor::of<int64_t>({n}, axes))},
               {{"keepdims", int64_t{1}}});
  }
  if (extra > 0) {
    std::vector<int64_t> leading;
    for (int i = 0; i < extra; ++i) leading.push_back(i);
    out = emit("Squeeze", {out, constant(Tensor::of<int64_t>({extra}, leading))}, {});
  }
  return out;
}

// Adds a node on the device of its forward node and infers it at once: the next rule reads its
// type.
Result<std::vector<ValueId>> Reverse::emit(std::string_view op, std::vector<ValueId> inputs,
                                           Attrs attrs, int outputs) {
  const size_t dot = op.find('.');
  const std::string_view domain = dot == std::string_view::npos ? "" : op.substr(0, dot);
  const std::string_view name = dot == std::string_view::npos ? op : op.substr(dot + 1);
  LEAT_ASSIGN_OR_RETURN(
      const NodeId id, graph_.add_node(domain, name, std::move(inputs), std::move(attrs), outputs));
  if (forward_ != kNone) graph_.node(id).device = graph_.node(forward_).device;
  LEAT_RETURN_IF_ERROR(inference_.infer(id));
  return graph_.node(id).outputs;
}

// Only floats carry a gradient, and elements that stand for them, also where these ops rearrange
// them: indices, masks and resources end the path. REQUIRES: an input of the node carries one.
bool Reverse::carries(const Node& node, ValueId output) const {
  const ValueType& type = graph_.value(output).type;
  if (type.kind != ValueKind::tensor) return false;
  if (is_float(type.dtype) || node.op->stands_for_floats || node.op->view) return true;
  const std::string name = node.op->full_name();
  return name == "Transpose" || name == "Concat" || name == "Expand";
}

void Reverse::mark_active(const std::vector<NodeId>& order) {
  active_.assign(graph_.values(), false);
  for (ValueId x : xs_) active_[x] = true;
  for (NodeId id : order) {
    const Node& node = graph_.node(id);
    const bool any =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return active(v); });
    if (!any) continue;
    for (ValueId output : node.outputs) {
      if (output != kNone && carries(node, output)) active_[output] = true;
    }
  }
}

// True if y depends on x through tensors that carry a gradient.
bool Reverse::reaches(ValueId x, ValueId y, const std::vector<NodeId>& order) const {
  std::vector<bool> reached(active_.size(), false);
  reached[x] = true;
  for (NodeId id : order) {
    const Node& node = graph_.node(id);
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return v != kNone && v < reached.size() && reached[v];
    });
    for (ValueId output : node.outputs) {
      if (any && active(output)) reached[output] = true;
    }
  }
  return reached[y];
}

// A tensor of the type of `like`, every element `value`.
Result<ValueId> Reverse::filled_like(ValueId like, double value) {
  const ValueType type = graph_.value(like).type;
  LEAT_ASSIGN_OR_RETURN(auto filled,
                        emit("Constant", {}, {{"value", Tensor::scalar_of(type.dtype, value)}}, 1));
  if (type.shape.rank() == 0) return filled[0];
  if (type.shape.is_constant()) {
    LEAT_ASSIGN_OR_RETURN(auto shape, emit("Shape", {like}, {}, 1));
    LEAT_ASSIGN_OR_RETURN(auto expanded, emit("Expand", {filled[0], shape[0]}, {}, 1));
    return expanded[0];
  }
  // Expand would make new symbols for sizes that it does not know; this form keeps those of `like`.
  LEAT_ASSIGN_OR_RETURN(auto any, emit("Equal", {like, like}, {}, 1));
  LEAT_ASSIGN_OR_RETURN(auto chosen, emit("Where", {any[0], filled[0], filled[0]}, {}, 1));
  return chosen[0];
}

// Sums the parts of a value's gradient and keeps the sum as its only part.
Result<ValueId> Reverse::total(ValueId value) {
  auto waiting = parts(value);
  if (waiting.empty()) return kNone;
  ValueId sum = waiting[0];
  for (size_t i = 1; i < waiting.size(); ++i) {
    // Those of elements that stand for floats may be of several types.
    if (graph_.value(waiting[i]).type.dtype != graph_.value(sum).type.dtype) {
      LEAT_ASSIGN_OR_RETURN(auto like, emit("CastLike", {waiting[i], sum}, {}, 1));
      waiting[i] = like[0];
    }
    LEAT_ASSIGN_OR_RETURN(auto added, emit("Add", {sum, waiting[i]}, {}, 1));
    sum = added[0];
  }
  parts(value) = {sum};
  return sum;
}

// Emits the gradient of one node. When its turn comes, all consumers of its outputs have been
// visited, so that the sums are complete.
Status Reverse::differentiate(NodeId id) {
  bool any = false;
  forward_ = id;
  const std::vector<ValueId> outputs = graph_.node(id).outputs;
  for (ValueId output : outputs) {
    if (output == kNone) continue;
    LEAT_ASSIGN_OR_RETURN(const ValueId grad, total(output));
    any = any || grad != kNone;
  }
  const auto inputs = graph_.node(id).inputs;
  // No gradient arrives, or no x lies before this node: it contributes nothing.
  if (!any || std::none_of(inputs.begin(), inputs.end(), [&](ValueId v) { return active(v); }))
    return {};
  const OpDef* op = graph_.node(id).op;
  if (!op->gradient) {
    return invalid_argument(
        cat(graph_.describe_node(id),
            ": expected a differentiable op between the loss and its variables; ", op->full_name(),
            " has no gradient"));
  }
  Context context(*this, id);
  LEAT_RETURN_IF_ERROR(op->gradient(context));
  return context.status().while_doing(cat("differentiating ", graph_.describe_node(id)));
}

Result<std::vector<ValueId>> Reverse::run(ValueId y) {
  LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
  mark_active(order);
  const ValueType type = graph_.value(y).type;
  if (type.kind != ValueKind::tensor || !is_float(type.dtype)) {
    return invalid_argument(cat("gradients of '", graph_.describe(y),
                                "': expected a float tensor, it is ", graph_.type_text(type)));
  }
  // dy/dy is 1 for each element, which makes the result the gradient of the sum of y.
  if (active(y)) {
    LEAT_ASSIGN_OR_RETURN(const ValueId seed, filled_like(y, 1));
    parts(y).push_back(seed);
    for (auto it = order.rbegin(); it != order.rend(); ++it)
      LEAT_RETURN_IF_ERROR(differentiate(*it));
  }
  // No node produces an x that is an input of the graph, so its parts have not been summed yet.
  std::vector<ValueId> grads;
  forward_ = kNone;
  for (ValueId x : xs_) {
    LEAT_ASSIGN_OR_RETURN(ValueId grad, total(x));
    // An op such as Floor passes no gradient on: the gradient exists, and is zero.
    if (grad == kNone && reaches(x, y, order)) {
      LEAT_ASSIGN_OR_RETURN(grad, filled_like(x, 0));
    }
    grads.push_back(grad);
  }
  return grads;
}

}  // namespace

Result<std::vector<ValueId>> add_gradients(Inference& inference, ValueId y,
                                           std::span<const ValueId> xs) {
  return Reverse(inference, xs).run(y);
}

namespace {

// Moves the name to the new value, so that a fetch by that name gets the gradient.
void take_name(Graph& graph, ValueId from, ValueId to) {
  if (graph.value_name(from).empty() || !graph.value_name(to).empty()) return;
  graph.set_value_name(to, graph.value_name(from));
  graph.set_value_name(from, "");
}

// Moves control edges: a node that ran after a Gradients node now runs after the nodes that make
// the gradients.
void follow_producers(Graph& graph, NodeId gradients, const std::vector<ValueId>& made) {
  for (NodeId n = 0; n < graph.nodes(); ++n) {
    std::vector<NodeId>& after = graph.node(n).after;
    const auto it = std::find(after.begin(), after.end(), gradients);
    if (it == after.end()) continue;
    after.erase(it);
    for (ValueId value : made) {
      const NodeId producer = value == kNone ? kNone : graph.value(value).producer;
      if (producer != kNone && producer != n) after.push_back(producer);
    }
  }
}

}  // namespace

Status expand_gradients(Inference& inference) {
  Graph& graph = inference.graph();
  const OpDef* gradients = graph.catalogue().find("leat.Gradients");
  if (!gradients) return {};
  // The nodes are expanded in order: a y that is itself a gradient is already a gradient's value
  // when its consumer's turn comes.
  LEAT_ASSIGN_OR_RETURN(const auto order, graph.topological_order());
  for (NodeId id : order) {
    if (graph.node(id).op != gradients) continue;
    const std::vector<ValueId> inputs = graph.node(id).inputs;
    const std::vector<ValueId> outputs = graph.node(id).outputs;
    auto made = add_gradients(inference, inputs[0], std::span(inputs).subspan(1));
    if (!made.ok()) return made.status().while_doing(cat("expanding ", graph.describe_node(id)));
    // The readers of the node's outputs read the gradients from now on.
    std::map<ValueId, ValueId> replaced;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNone) continue;
      if ((*made)[i] == kNone) {
        return invalid_argument(cat(graph.describe_node(id), ": '", graph.describe(inputs[0]),
                                    "' does not depend on '", graph.describe(inputs[i + 1]), "'"));
      }
      replaced[outputs[i]] = (*made)[i];
      take_name(graph, outputs[i], (*made)[i]);
    }
    // Control edges, readers and the outputs of the graph follow to the new values.
    follow_producers(graph, id, *made);
    const auto renamed = [&](ValueId value) {
      const auto it = replaced.find(value);
      return it == replaced.end() ? value : it->second;
    };
    for (NodeId n = 0; n < graph.nodes(); ++n) {
      for (ValueId& input : graph.node(n).inputs) input = renamed(input);
    }
    std::vector<ValueId> borders;
    for (ValueId output : graph.outputs()) borders.push_back(renamed(output));
    graph.set_outputs(std::move(borders));
  }
  return {};
}

}  // namespace leat
