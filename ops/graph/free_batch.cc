#include "ops/graph/free_batch.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"

namespace leat {
namespace {

bool is_any_of(const Node& node, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), node.op->full_name()) != names.end();
}

// True for ops whose output has the bytes of their input in the same order: its first dimension may
// be another multiple of the batch.
bool is_view(const Node& node) {
  static constexpr std::array<std::string_view, 4> kViews = {"Reshape", "Flatten", "Squeeze",
                                                             "Unsqueeze"};
  return is_any_of(node, kViews);
}

// True for ops that return the sizes of a value and read none of its elements.
bool tells_sizes(const Node& node) {
  static constexpr std::array<std::string_view, 2> kSizes = {"Shape", "Size"};
  return is_any_of(node, kSizes);
}

// Tries to prove that the model computes the same for a batch of any size.
class Prover {
 public:
  Prover(const Graph& model, int64_t rows)
      : model_(model),
        rows_(rows),
        graph_(model),
        inference_(graph_),
        batch_(unused_symbol(graph_)),
        depends_(model.values(), false) {}

  // Returns an error that names the obstacle if there is no proof.
  Status run() {
    for (const ValueId input : graph_.inputs()) {
      graph_.value(input).type.shape.set(0, Dim::of_symbol(batch_));
      depends_[input] = true;
    }
    LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph_.topological_order());
    for (const NodeId id : order) {
      if (depends(graph_.node(id))) LEAT_RETURN_IF_ERROR(loosen(id));
      LEAT_RETURN_IF_ERROR(inference_.infer(id));
      if (depends(graph_.node(id))) LEAT_RETURN_IF_ERROR(check(id));
    }
    // Each output must have exactly one row for each row of the input.
    for (const ValueId output : graph_.outputs()) {
      const SymbolicShape& shape = graph_.value(output).type.shape;
      const bool row_for_row =
          depends_[output] && shape.rank() > 0 && shape[0] == Dim::of_symbol(batch_);
      if (!row_for_row) return wrong(cat("output '", graph_.describe(output), "'"), output);
    }
    return check_same();
  }

  Graph take() { return std::move(graph_); }

 private:
  // "N" is what most exporters call a batch. Another symbol of that name would be a different size.
  static SymbolId unused_symbol(Graph& graph) {
    for (const char* name : {"N", "batch"}) {
      bool used = false;
      for (SymbolId s = 0; s < graph.symbols(); ++s) used |= graph.symbol_info(s).name == name;
      if (!used) return graph.symbol(name);
    }
    return graph.fresh_symbol();
  }

  // True if the node reads a value that depends on the input.
  bool depends(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return input != kNone && depends_[input]; });
  }

  // The error for a value whose type is not that of rows; it shows the type with the symbolic
  // batch.
  Status wrong(std::string_view subject, ValueId value) const {
    return invalid_argument(cat(subject, " gives ", graph_.type_text(graph_.value(value).type),
                                " with ", graph_.dim_text(Dim::of_symbol(batch_)), " rows"));
  }

  // The constant that is the target of a Reshape; null if the target is no constant.
  const Tensor* target_of(const Node& reshape) const {
    const NodeId producer = graph_.value(reshape.inputs[1]).producer;
    if (producer == kNone || graph_.node(producer).op->full_name() != "Constant") return nullptr;
    const auto attr = graph_.node(producer).attrs.find("value");
    if (attr == graph_.node(producer).attrs.end()) return nullptr;
    const Tensor* sizes = std::get_if<Tensor>(&attr->second);
    return sizes && sizes->dtype() == DType::i64 && sizes->elements() > 0 ? sizes : nullptr;
  }

  // False for a value that is anything but the target of a Reshape: the numbers themselves count
  // there.
  bool is_only_target(ValueId value) const {
    const auto& outputs = graph_.outputs();
    if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return false;
    for (NodeId id = 0; id < graph_.nodes(); ++id) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == value && (i != 1 || node.op->full_name() != "Reshape")) return false;
      }
    }
    return true;
  }

  // Replaces a batch size in the target of a Reshape with the form that derives it: from the number
  // of elements (-1), or from the same dimension of the input (0).
  Status loosen(NodeId id) {
    Node& node = graph_.node(id);
    const Tensor* sizes = node.op->full_name() == "Reshape" ? target_of(node) : nullptr;
    // Another Reshape to the same target may have found that the first size is its input's.
    if (sizes && copied_.contains(node.inputs[1]))
      node.attrs.insert_or_assign("allowzero", int64_t{0});
    // A first size of -1 or 0 is no batch size.
    if (!sizes || sizes->int_at(0) < 1 || !is_only_target(node.inputs[1])) return {};
    Tensor loose = sizes->clone();
    const auto others = loose.span<int64_t>().subspan(1);
    const auto has = [&](int64_t size) {
      return std::find(others.begin(), others.end(), size) != others.end();
    };
    const SymbolicShape& in = graph_.value(node.inputs[0]).type.shape;
    // With allowzero, a 0 is a size: changing the attribute would change its meaning.
    if (has(0) && attr_int(node.attrs, "allowzero") != 0) return {};
    if (!has(-1)) {
      loose.data<int64_t>()[0] = -1;
    } else if (in.rank() > 0 && !in[0].is_constant() && in[0].factor * rows_ == loose.int_at(0)) {
      loose.data<int64_t>()[0] = 0;
      node.attrs.insert_or_assign("allowzero", int64_t{0});
      copied_.insert(node.inputs[1]);
    }
    const NodeId producer = graph_.value(node.inputs[1]).producer;
    graph_.node(producer).attrs.insert_or_assign("value", std::move(loose));
    return inference_.infer(producer);
  }

  // Checks that the batch is the first dimension, and no other, of every row-wise output of a node.
  Status check(NodeId id) {
    const Node& node = graph_.node(id);
    if (tells_sizes(node)) return {};
    const std::string subject = graph_.describe_node(id);
    if (works_along_batch(node) || slices_batch(node) || meets_fixed_rows(node))
      return invalid_argument(cat(subject, " works along the first dimension"));
    // The other outputs of a BatchNormalization are statistics of the channels.
    const bool normalizes = node.op->full_name() == "BatchNormalization";
    for (const ValueId output : node.outputs) {
      if (output == kNone || (normalizes && output != node.outputs[0])) continue;
      if (!has_batch_first(node, graph_.value(output).type)) return wrong(subject, output);
      depends_[output] = true;
    }
    return {};
  }

  // An op that is no view must pass on the first size of an input that depends on the batch.
  bool has_batch_first(const Node& node, const ValueType& type) const {
    const SymbolicShape& shape = type.shape;
    if (type.kind != ValueKind::tensor || shape.rank() == 0 || shape[0].symbol != batch_)
      return false;
    for (int i = 1; i < shape.rank(); ++i) {
      if (shape[i].symbol == batch_) return false;
    }
    return is_view(node) || std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             return input != kNone && depends_[input] &&
                    graph_.value(input).type.shape[0] == shape[0];
           });
  }

  // True if a Slice may touch the batch. It could reverse the rows and keep their number, so its
  // axes must be known not to include the batch.
  bool slices_batch(const Node& node) const {
    if (node.op->full_name() != "Slice" || !depends_[node.inputs[0]]) return false;
    const Tensor* axes = node.inputs.size() > 3 && node.inputs[3] != kNone
                             ? inference_.constant(node.inputs[3])
                             : nullptr;
    if (!axes) return true;  // all axes, or axes that are not known
    const int64_t rank = graph_.value(node.inputs[0]).type.shape.rank();
    for (int64_t i = 0; i < axes->elements(); ++i) {
      if (axes->int_at(i) == 0 || axes->int_at(i) == -rank) return true;
    }
    return false;
  }

  // True if an op reads row by row from two operands, of which one has a fixed number of rows.
  // Inference allows that, for one may have fewer rows than the other.
  bool meets_fixed_rows(const Node& node) const {
    static constexpr std::array<std::string_view, 2> kByElements = {"GatherElements",
                                                                    "ScatterElements"};
    return is_any_of(node, kByElements) &&
           !std::all_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId input) { return input == kNone || depends_[input]; });
  }

  // True if an attribute names the first dimension of rows.
  bool works_along_batch(const Node& node) const {
    const bool of_rows = !node.inputs.empty() && node.inputs[0] != kNone &&
                         depends_[node.inputs[0]] && !is_view(node);
    const int64_t rank = of_rows ? graph_.value(node.inputs[0]).type.shape.rank() : 0;
    for (const auto& [name, attr] : with_defaults(*node.op, node.attrs)) {
      if (std::holds_alternative<std::shared_ptr<Graph>>(attr)) return true;
      const auto is_first = [&](int64_t axis) { return axis == 0 || axis == -rank; };
      const auto* axis = std::get_if<int64_t>(&attr);
      const auto* axes = std::get_if<std::vector<int64_t>>(&attr);
      if (of_rows && name == "axis" && axis && is_first(*axis)) return true;
      if (of_rows && name == "axes" && axes && std::any_of(axes->begin(), axes->end(), is_first))
        return true;
    }
    return false;
  }

  // Checks that the graph with the file's number of rows has the types of the file's graph.
  Status check_same() {
    LEAT_RETURN_IF_ERROR(validate(graph_));
    for (ValueId value = 0; value < model_.values(); ++value) {
      const SymbolicShape &was = model_.value(value).type.shape,
                          &is = graph_.value(value).type.shape;
      bool same = was.rank() == is.rank();
      for (int i = 0; same && i < was.rank(); ++i) {
        // Puts the file's number of rows in place of the batch. A symbol of the file's graph must
        // still be a symbol.
        const Dim dim = is[i].symbol == batch_ ? Dim::of(is[i].factor * rows_) : is[i];
        same = was[i].is_constant() ? dim == was[i] : !dim.is_constant();
      }
      if (!same) return wrong(cat("'", graph_.describe(value), "'"), value);
    }
    return {};
  }

  const Graph& model_;
  const int64_t rows_;
  Graph graph_;
  Inference inference_;
  const SymbolId batch_;
  std::vector<bool> depends_;  // on the input, by value
  std::set<ValueId> copied_;   // targets whose first size has become 0
};

}  // namespace

// All inputs are data of a batch, so they must have the same number of rows.
ModelBatch free_batch(Graph& graph) {
  std::optional<int64_t> batch;
  for (const ValueId input : graph.inputs()) {
    const SymbolicShape& shape = graph.value(input).type.shape;
    if (shape.rank() == 0 || !shape[0].is_constant() || shape[0].factor < 1) return {};
    if (batch && *batch != shape[0].factor) {
      return {*batch, cat("input '", graph.describe(input), "' has ", shape[0].factor, " rows")};
    }
    batch = shape[0].factor;
  }
  if (!batch) return {};
  const int64_t rows = *batch;
  Prover prover(graph, rows);
  const Status proven = prover.run();
  if (!proven.ok()) return {rows, proven.message()};
  graph = prover.take();
  return {};
}

}  // namespace leat
