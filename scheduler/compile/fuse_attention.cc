#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/graph/interpret.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

constexpr int64_t kMostColumns = 256;            // of a head, for which accelerators have kernels
constexpr double kHidden = -1e30;                // a score that much lower weighs nothing
constexpr int64_t kMostMask = int64_t{1} << 26;  // elements of a constant mask that is looked at

// A value times a number.
struct Scaled {
  ValueId value = kNone;
  double factor = 1;
};

// y = softmax(scale * q * k^T + mask) * v, with K as it is or transposed in its last two axes.
struct Pattern {
  ValueId q = kNone, k = kNone, v = kNone, mask = kNone;
  std::optional<std::vector<int64_t>> k_perm;  // K is a Transpose of `k` by this
  double scale = 1;
  bool causal = false;
};

class AttentionFusion {
 public:
  AttentionFusion(const Graph& graph, const Inference& inference, const Borders& borders)
      : graph_(graph),
        inference_(inference),
        consumers_(graph.consumers()),
        fetched_(graph.values(), false),
        varies_(graph.values(), false),
        attention_(graph.catalogue().find("Attention")),
        transpose_(graph.catalogue().find("Transpose")),
        rewriter_(graph) {
    for (const ValueId fetch : borders.fetches) fetched_[fetch] = true;
    for (const ValueId output : graph.outputs()) fetched_[output] = true;
  }

  Result<Graph> run(Borders& borders) {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    find_varying(order);
    for (const NodeId id : order) {
      const auto pattern = attention_ ? find(id) : std::nullopt;
      if (pattern)
        replace(id, *pattern);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish(borders);
  }

 private:
  // Marks what depends on a variable, or on a value that gradients are taken of.
  void find_varying(const std::vector<NodeId>& order) {
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (!is_op(node, "leat.Gradients")) continue;
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != kNone) varies_[node.inputs[i]] = true;
      }
    }
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      const bool varies = node.op->make_resource ||
                          std::any_of(node.inputs.begin(), node.inputs.end(),
                                      [&](ValueId v) { return v != kNone && varies_[v]; });
      for (const ValueId output : node.outputs) {
        if (output != kNone && varies) varies_[output] = true;
      }
    }
  }

  NodeId producer(ValueId value) const {
    return value == kNone ? kNone : graph_.value(value).producer;
  }
  // True if a node of that op, which waits for nothing else, makes the value.
  bool made_by(ValueId value, std::string_view op) const {
    const NodeId id = producer(value);
    return id != kNone && is_op(graph_.node(id), op) && graph_.node(id).after.empty();
  }
  // The node that makes a value which one node alone reads.
  const Node* inner(ValueId value, NodeId of) const {
    const NodeId id = producer(value);
    if (id == kNone || fetched_[value] || consumers_[value].size() != 1) return nullptr;
    const Node& node = graph_.node(id);
    return node.after.empty() && node.device == graph_.node(of).device ? &node : nullptr;
  }
  std::optional<Shape> shape_of(ValueId value) const {
    const ValueType& type = graph_.value(value).type;
    return type.kind == ValueKind::tensor ? type.shape.concrete() : std::nullopt;
  }
  DType dtype_of(ValueId value) const { return graph_.value(value).type.dtype; }

  // The number that a value is, if it is one that is known.
  std::optional<double> number(ValueId value) const {
    const Tensor* constant = value == kNone ? nullptr : inference_.constant(value);
    if (!constant || constant->elements() != 1 || !is_float(constant->dtype())) return std::nullopt;
    return constant->at(0);
  }
  // The operand of a Mul or a Div by a number, and the number; else the value itself.
  Scaled unscaled(ValueId value) const {
    if (!made_by(value, "Mul") && !made_by(value, "Div")) return {value, 1};
    const Node& node = graph_.node(producer(value));
    const bool divides = is_op(node, "Div");
    for (const size_t i : {size_t{1}, size_t{0}}) {
      const auto by = number(node.inputs[i]);
      if (!by || (divides && (i == 0 || *by == 0))) continue;
      const ValueId rest = node.inputs[1 - i];
      if (graph_.value(rest).type.shape == graph_.value(value).type.shape)
        return {rest, divides ? 1 / *by : *by};
    }
    return {value, 1};
  }

  // The same where the product is computed in a wider type: conversions before and behind it are
  // left out, too. The value has the type of the given one.
  Scaled unscaled_value(ValueId value) const {
    const Scaled direct = unscaled(value);
    if (direct.value != value || !made_by(value, "Cast")) return direct;
    const DType dtype = dtype_of(value);
    Scaled wide = unscaled(graph_.node(producer(value)).inputs[0]);
    const DType computes = dtype_of(wide.value);
    if (!is_float(computes) || !is_float(dtype)) return {value, 1};
    // A type that is no wider would round, and that must stay.
    if (computes != dtype && dtype_size(computes) > dtype_size(dtype) &&
        made_by(wide.value, "Cast"))
      wide.value = graph_.node(producer(wide.value)).inputs[0];
    return dtype_of(wide.value) == dtype ? wide : Scaled{value, 1};
  }

  std::optional<Pattern> find(NodeId id) const {
    const Node& weighted = graph_.node(id);
    if (!is_op(weighted, "MatMul") || !weighted.after.empty()) return std::nullopt;
    Pattern found;
    found.v = weighted.inputs[1];
    // From the weights to the softmax, the mask and the scores.
    const Node* node = behind_casts(weighted.inputs[0], id);
    if (!node || !is_op(*node, "Softmax")) return std::nullopt;
    const auto scores = shape_of(node->outputs[0]);
    if (!scores || !along_last_axis(*node, scores->rank())) return std::nullopt;
    node = behind_casts(node->inputs[0], id);
    if (node && is_op(*node, "Add")) {
      node = split_mask(*node, id, *scores, found);
      if (!node) return std::nullopt;
    }
    if (node && (is_op(*node, "Mul") || is_op(*node, "Div"))) {
      const Scaled scaled = unscaled(node->outputs[0]);
      if (scaled.value == node->outputs[0]) return std::nullopt;
      found.scale *= scaled.factor;
      node = behind_casts(scaled.value, id);
    }
    if (!node || !is_op(*node, "MatMul")) return std::nullopt;
    const Scaled q = unscaled_value(node->inputs[0]);
    found.q = q.value;
    found.scale *= q.factor;
    if (!find_keys(node->inputs[1], found) || !fits(found, *scores)) return std::nullopt;
    return found;
  }

  static bool along_last_axis(const Node& softmax, int rank) {
    const int64_t axis = attr_int(softmax.attrs, "axis", -1);
    return axis == -1 || axis == rank - 1;
  }
  // The inner node that makes a value, or the one before the conversions of its type.
  const Node* behind_casts(ValueId value, NodeId of) const {
    const Node* node = inner(value, of);
    while (node && is_op(*node, "Cast") && is_float(dtype_of(node->inputs[0])))
      node = inner(node->inputs[0], of);
    return node;
  }

  // Takes the mask from an Add; the node that makes the other operand.
  const Node* split_mask(const Node& add, NodeId of, const Shape& scores, Pattern& found) const {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto shape = shape_of(add.inputs[i]);
      const Node* node = shape && *shape == scores ? behind_casts(add.inputs[i], of) : nullptr;
      if (!node || (!is_op(*node, "MatMul") && !is_op(*node, "Mul") && !is_op(*node, "Div")))
        continue;
      found.mask = add.inputs[1 - i];
      return node;
    }
    return nullptr;
  }

  // The right operand of the scores, a transposed K.
  bool find_keys(ValueId transposed, Pattern& found) const {
    const Scaled outer = unscaled_value(transposed);
    found.scale *= outer.factor;
    ValueId value = outer.value;
    const auto shape = shape_of(value);
    if (!shape || shape->rank() < 3) return false;
    const int rank = shape->rank();
    found.k = value;
    found.k_perm.emplace();
    for (int64_t i = 0; i < rank; ++i) found.k_perm->push_back(i);
    std::swap((*found.k_perm)[static_cast<size_t>(rank - 1)],
              (*found.k_perm)[static_cast<size_t>(rank - 2)]);
    // A Reshape of the leading axes, before and behind the Transpose, as exporters write it.
    ValueId inside = value;
    if (made_by(inside, "Reshape")) inside = graph_.node(producer(inside)).inputs[0];
    if (!made_by(inside, "Transpose")) return true;
    const Node& transpose = graph_.node(producer(inside));
    std::vector<int64_t> perm = attr_ints(transpose.attrs, "perm");
    const auto before = shape_of(transpose.inputs[0]), behind = shape_of(inside);
    if (perm.size() < 2 || !before || !behind) return true;
    if (inside == value) {
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      found.k = transpose.inputs[0];
      if (std::is_sorted(perm.begin(), perm.end()))
        found.k_perm.reset();
      else
        found.k_perm = perm;
      return true;
    }
    const size_t last = perm.size() - 1;
    std::swap(perm[last], perm[last - 1]);
    if (!std::is_sorted(perm.begin(), perm.end()) || !made_by(transpose.inputs[0], "Reshape"))
      return true;
    const ValueId k = graph_.node(producer(transpose.inputs[0])).inputs[0];
    const auto whole = shape_of(k);
    const auto ends = [](const Shape& s) { return std::pair(s[s.rank() - 2], s[s.rank() - 1]); };
    const auto [rows, columns] = ends(*before);
    if (!whole || whole->rank() != rank || ends(*whole) != ends(*before) ||
        ends(*shape) != std::pair(columns, rows))
      return true;
    for (int i = 0; i + 2 < rank; ++i) {
      if ((*whole)[i] != (*shape)[i]) return true;
    }
    const Scaled unreshaped = unscaled_value(k);
    found.scale *= unreshaped.factor;
    found.k = unreshaped.value;
    found.k_perm.reset();
    return true;
  }

  // Whether one Attention computes it, and accelerators have a kernel for that.
  bool fits(Pattern& found, const Shape& scores) const {
    const auto q = shape_of(found.q), v = shape_of(found.v);
    const int rank = scores.rank();
    const DType dtype = dtype_of(found.q);
    if (!q || !v || (rank != 3 && rank != 4) || q->rank() != rank || v->rank() != rank ||
        scores.elements() == 0 || dtype != dtype_of(found.v) || dtype != dtype_of(found.k) ||
        dtype == DType::f64)
      return false;
    for (int i = 0; i + 2 < rank; ++i) {
      if ((*q)[i] != scores[i] || (*v)[i] != scores[i]) return false;
    }
    const auto k = shape_of(found.k);
    if (!k || k->rank() != rank) return false;
    for (int i = 0; i + 2 < rank; ++i) {
      const int64_t of_k =
          (*k)[found.k_perm ? static_cast<int>((*found.k_perm)[static_cast<size_t>(i)]) : i];
      if (of_k != scores[i]) return false;
    }
    if ((*v)[rank - 2] != scores[rank - 1] ||
        std::max((*q)[rank - 1], (*v)[rank - 1]) > kMostColumns)
      return false;
    return found.mask == kNone || takes_mask(found, scores);
  }

  bool takes_mask(Pattern& found, const Shape& scores) const {
    const auto shape = shape_of(found.mask);
    if (!shape || shape->rank() > scores.rank()) return false;
    found.causal = is_causal(found.mask, *shape, scores);
    if (found.causal) {
      found.mask = kNone;
      return true;
    }
    // Rounded to fewer bits, what should only be low may become an infinity.
    if (dtype_of(found.mask) != dtype_of(found.q)) return false;
    // A mask is not broadcast over the keys: those behind its last column are hidden. Accelerators
    // have no kernel for its gradient.
    if (shape->rank() < 1 || (*shape)[shape->rank() - 1] != scores[scores.rank() - 1] ||
        varies_[found.mask])
      return false;
    // The mask's heads are the fourth axis from the end, which three axes do not have.
    return scores.rank() == 4 ? shape->rank() >= 2 : shape->rank() == 2;
  }

  // True for a constant that hides each key behind its query and no other.
  bool is_causal(ValueId mask, const Shape& shape, const Shape& scores) const {
    const int rank = shape.rank();
    const int64_t rows = scores[scores.rank() - 2], columns = scores[scores.rank() - 1];
    if (rank < 2 || shape.elements() != rows * columns || shape.elements() > kMostMask ||
        shape[rank - 2] != rows || shape[rank - 1] != columns)
      return false;
    const auto [known, fresh] = causal_.try_emplace(mask, false);
    if (!fresh) return known->second;
    std::map<ValueId, Tensor> feeds;
    int64_t elements = 0;
    if (!is_computable(mask, feeds, elements)) return false;
    const auto values = interpret(graph_, feeds, {mask});
    if (!values.ok()) return false;
    const Tensor& given = (*values)[0];
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const double x = given.at(row * columns + column);
        if (column <= row ? x != 0 : !(x <= kHidden)) return false;
      }
    }
    return known->second = true;
  }

  // True if a value is made of constants by few ops that take little work: the way in which masks
  // are made. Collects what inference knows of it.
  bool is_computable(ValueId value, std::map<ValueId, Tensor>& feeds, int64_t& elements) const {
    static constexpr std::string_view kOps[] = {"Add",         "And",
                                                "Cast",        "CastLike",
                                                "Constant",    "ConstantOfShape",
                                                "Equal",       "Expand",
                                                "Greater",     "GreaterOrEqual",
                                                "Identity",    "Less",
                                                "LessOrEqual", "Mul",
                                                "Neg",         "Not",
                                                "Or",          "Range",
                                                "Reshape",     "Sub",
                                                "Transpose",   "Trilu",
                                                "Unsqueeze",   "Where"};
    if (feeds.contains(value)) return true;
    if (const Tensor* constant = inference_.constant(value)) {
      feeds.emplace(value, *constant);
      return true;
    }
    const NodeId id = producer(value);
    const auto shape = shape_of(value);
    if (id == kNone || !shape || shape->elements() > kMostMask) return false;
    const Node& node = graph_.node(id);
    elements += shape->elements();
    if (elements > 16 * kMostMask || !node.op->pure() ||
        std::none_of(std::begin(kOps), std::end(kOps),
                     [&](std::string_view op) { return is_op(node, op); }))
      return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input == kNone || is_computable(input, feeds, elements);
    });
  }

  void replace(NodeId id, const Pattern& found) {
    const Node& node = graph_.node(id);
    ValueId k = rewriter_.value(found.k);
    if (found.k_perm) {
      const NodeId turned = rewriter_.add(*transpose_, {k}, {{"perm", *found.k_perm}}, 1);
      rewriter_.to().node(turned).device = node.device;
      k = rewriter_.to().node(turned).outputs[0];
    }
    Attrs attrs = {{"scale", found.scale}};
    if (found.causal) attrs["is_causal"] = int64_t{1};
    if (shape_of(found.q)->rank() == 3) attrs["q_num_heads"] = attrs["kv_num_heads"] = int64_t{1};
    std::vector<ValueId> inputs = {rewriter_.value(found.q), k, rewriter_.value(found.v)};
    if (found.mask != kNone) inputs.push_back(rewriter_.value(found.mask));
    const NodeId made = rewriter_.add(*attention_, std::move(inputs), std::move(attrs), 1);
    Node& attention = rewriter_.to().node(made);
    attention.device = node.device;
    attention.name = node.name;
    const ValueId y = attention.outputs[0];
    rewriter_.to().set_value_name(y, graph_.value_name(node.outputs[0]));
    rewriter_.map_value(node.outputs[0], y);
    rewriter_.map_node(id, made);
  }

  const Graph& graph_;
  const Inference& inference_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<bool> fetched_;  // by value
  std::vector<bool> varies_;   // by value
  const OpDef* attention_;
  const OpDef* transpose_;
  Rewriter rewriter_;
  mutable std::map<ValueId, bool> causal_;  // by mask
};

}  // namespace

Result<Graph> fuse_attention(Graph graph, Borders& borders) {
  Graph out(graph.catalogue());
  {
    Inference inference(graph);
    LEAT_RETURN_IF_ERROR(inference.run());
    LEAT_ASSIGN_OR_RETURN(out, AttentionFusion(graph, inference, borders).run(borders));
  }
  return prune(std::move(out), borders);
}

}  // namespace leat
