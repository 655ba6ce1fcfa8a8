// An ONNX LSTM, GRU or RNN of a leat.Recurrent: the reverse of ops/text/recurrent_composites.cc.
#include <utility>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/onnx/export_draft.h"

namespace leat {
namespace {

// The operands of leat.Recurrent.
enum Operand : size_t { kProducts, kWeights, kFirstH, kFirstC, kMore, kSteps };

// ONNX's activations that have a number alpha, and those that have beta.
constexpr std::string_view kWithAlpha[] = {"Affine",     "LeakyRelu",   "ThresholdedRelu",
                                           "ScaledTanh", "HardSigmoid", "Elu"};
constexpr std::string_view kWithBeta[] = {"Affine", "ScaledTanh", "HardSigmoid"};

bool equal_words(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if ((a[i] | 0x20) != (b[i] | 0x20)) return false;
  }
  return true;
}

class RecurrentExporter {
 public:
  RecurrentExporter(const Graph& graph, const Node& node, const std::vector<std::string>& names,
                    ExportNames& fresh, std::vector<DraftNode>& out)
      : graph_(graph), node_(node), names_(names), fresh_(fresh), out_(out) {}

  Status run() {
    const std::string cell = attr_string(node_.attrs, "cell");
    const std::string op = cell == "lstm" ? "LSTM" : cell == "gru" ? "GRU" : "RNN";
    LEAT_RETURN_IF_ERROR(find_product());
    const auto state = constant_of(graph_.value(node_.inputs[kWeights]).type.shape[0]);
    if (!state) return invalid_argument("expected a known size of the state");
    state_ = *state;
    DraftNode made;
    made.op = op;
    made.name = node_.name;
    made.inputs = {{names_[x_], 0}, matrix(w_), matrix(node_.inputs[kWeights]), bias(op)};
    made.inputs.push_back(optional(kSteps));
    made.inputs.push_back(state_of(kFirstH));
    if (op == "LSTM") {
      made.inputs.push_back(state_of(kFirstC));
      made.inputs.push_back(has(kMore) ? widened(name(node_.inputs[kMore])) : DraftName{});
    }
    set_attributes(made);
    std::vector<DraftNode> after;
    made.outputs = {output(0, 1, after), output(1, 0, after)};
    if (op == "LSTM") made.outputs.push_back(output(2, 0, after));
    while (made.inputs.back().name.empty()) made.inputs.pop_back();
    out_.push_back(std::move(made));
    for (DraftNode& each : after) out_.push_back(std::move(each));
    return {};
  }

 private:
  bool has(size_t operand) const {
    return operand < node_.inputs.size() && node_.inputs[operand] != kNone;
  }
  DraftName name(ValueId value) const { return {names_[value], 0}; }
  DraftName optional(size_t operand) const {
    return has(operand) ? name(node_.inputs[operand]) : DraftName{};
  }
  // The node that makes a value, if its op is this one.
  const Node* made_by(ValueId value, std::string_view op) const {
    const NodeId id = value == kNone ? kNone : graph_.value(value).producer;
    return id != kNone && graph_.node(id).op->full_name() == op ? &graph_.node(id) : nullptr;
  }

  // x * w, plus a bias if there is one.
  Status find_product() {
    ValueId products = node_.inputs[kProducts];
    if (const Node* sum = made_by(products, "Add")) {
      const bool first = made_by(sum->inputs[0], "MatMul") != nullptr;
      products = sum->inputs[first ? 0 : 1];
      bias_ = sum->inputs[first ? 1 : 0];
      if (graph_.value(bias_).type.shape.rank() != 1)
        return invalid_argument("expected a vector as the bias of its products");
    }
    const Node* product = made_by(products, "MatMul");
    if (product == nullptr || graph_.value(product->inputs[1]).type.shape.rank() != 2)
      return invalid_argument("expected the product of a sequence with weights");
    x_ = product->inputs[0];
    w_ = product->inputs[1];
    return {};
  }

  DraftName node(std::string op, std::vector<DraftName> inputs,
                 std::map<std::string, DraftAttr, std::less<>> attrs = {}) {
    DraftNode made;
    made.op = std::move(op);
    made.inputs = std::move(inputs);
    made.outputs = {{fresh_.add(made.op), 0}};
    made.attrs = std::move(attrs);
    out_.push_back(std::move(made));
    return out_.back().outputs[0];
  }
  DraftName ints(std::vector<int64_t> values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    return node("Constant", {}, {{"value", Attr(Tensor::of<int64_t>(shape, values))}});
  }
  // With an axis of size 1 for the direction.
  DraftName widened(const DraftName& value) { return node("Unsqueeze", {value, ints({0})}); }
  DraftName state_of(size_t operand) {
    return has(operand) ? widened(name(node_.inputs[operand])) : DraftName{};
  }

  // The matrix [1, columns, rows] of one [rows, columns]. The import transposed it and took its
  // direction out of it: then the value from before is it.
  DraftName matrix(ValueId value) {
    const Node* transposed = made_by(value, "Transpose");
    if (transposed == nullptr) {
      const std::vector<int64_t> swapped{1, 0};
      return widened(node("Transpose", {name(value)}, {{"perm", Attr(swapped)}}));
    }
    const ValueId before = transposed->inputs[0];
    const Node* squeezed = made_by(before, "Squeeze");
    const bool whole = squeezed != nullptr &&
                       constant_of(graph_.value(squeezed->inputs[0]).type.shape[0]) == 1 &&
                       graph_.value(squeezed->inputs[0]).type.shape.rank() == 3;
    return whole ? name(squeezed->inputs[0]) : widened(name(before));
  }

  // ONNX has a bias of the input's products, one of the state's, and adds them up. Of a GRU that
  // resets the product of the state, the last gate's bias of the state is operand `extra`.
  DraftName bias(const std::string& op) {
    const bool inside = op == "GRU" && has(kMore);
    if (bias_ == kNone && !inside) return {};
    const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
    const DType dtype = graph_.value(w_).type.dtype;
    const auto zeros = [&](int64_t count) {
      return node("Constant", {}, {{"value", Attr(Tensor(dtype, Shape{count * state_}))}});
    };
    std::vector<DraftName> parts{bias_ == kNone ? zeros(gates) : name(bias_)};
    parts.push_back(zeros(inside ? gates - 1 : gates));
    if (inside) parts.push_back(name(node_.inputs[kMore]));
    return widened(node("Concat", std::move(parts), {{"axis", Attr(int64_t{0})}}));
  }

  void set_attributes(DraftNode& made) const {
    made.attrs.emplace("hidden_size", Attr(state_));
    if (attr_int(node_.attrs, "reverse") != 0)
      made.attrs.emplace("direction", Attr(std::string("reverse")));
    for (const char* flag : {"input_forget", "linear_before_reset"}) {
      const bool of_cell = made.op == (std::string_view(flag) == "input_forget" ? "LSTM" : "GRU");
      if (of_cell && attr_int(node_.attrs, flag) != 0) made.attrs.emplace(flag, Attr(int64_t{1}));
    }
    if (const double clip = attr_float(node_.attrs, "clip"); clip != 0)
      made.attrs.emplace("clip", Attr(clip));
    const auto activations = node_.attrs.find("activations");
    if (activations == node_.attrs.end()) return;
    made.attrs.emplace("activations", activations->second);
    const auto& words = std::get<std::vector<std::string>>(activations->second);
    add_numbers(made, "activation_alpha", words, kWithAlpha);
    add_numbers(made, "activation_beta", words, kWithBeta);
  }
  // Leat has a number for each activation, ONNX for those that take one.
  void add_numbers(DraftNode& made, const char* attr, const std::vector<std::string>& words,
                   std::span<const std::string_view> takers) const {
    const auto found = node_.attrs.find(attr);
    if (found == node_.attrs.end()) return;
    const auto& all = std::get<std::vector<double>>(found->second);
    std::vector<double> some;
    for (size_t i = 0; i < std::min(words.size(), all.size()); ++i) {
      for (const std::string_view taker : takers) {
        if (equal_words(words[i], taker)) some.push_back(all[i]);
      }
    }
    if (!some.empty()) made.attrs.emplace(attr, Attr(std::move(some)));
  }

  // Output `index`, without the axis of the direction.
  DraftName output(size_t index, int64_t axis, std::vector<DraftNode>& after) {
    if (index >= node_.outputs.size() || node_.outputs[index] == kNone) return {};
    DraftNode squeeze;
    squeeze.op = "Squeeze";
    squeeze.inputs = {{fresh_.add(cat(names_[node_.outputs[index]], "/directions")), 0},
                      ints({axis})};
    squeeze.outputs = {name(node_.outputs[index])};
    after.push_back(squeeze);
    return squeeze.inputs[0];
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<std::string>& names_;
  ExportNames& fresh_;
  std::vector<DraftNode>& out_;
  ValueId x_ = kNone, w_ = kNone, bias_ = kNone;
  int64_t state_ = 0;
};

}  // namespace

Status export_recurrent(const Graph& graph, NodeId id, const std::vector<std::string>& names,
                        ExportNames& fresh, std::vector<DraftNode>& out) {
  return RecurrentExporter(graph, graph.node(id), names, fresh, out).run();
}

}  // namespace leat
