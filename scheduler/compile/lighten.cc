#include <map>
#include <optional>
#include <set>

#include "scheduler/compile/passes.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/part_rewriter.h"

namespace leat {
namespace {

// A product and the bias that an Add brings to it.
struct Biased {
  NodeId product = kNone;
  ValueId bias = kNone;
};
// Gradients of slices of one value along an axis, in the order of the slices.
struct SliceSum {
  std::vector<ValueId> gradients;
  int64_t axis = 0;
};
// The range of a gradient of a slice along one axis. It is whole along all others.
struct SlicePlace {
  int64_t axis = 0, start = 0, end = 0;
};

class Lightening {
 public:
  Lightening(const Graph& graph, const Borders& borders, const std::vector<uint32_t>& depth,
             const std::string& kind)
      : graph_(graph),
        rewriter_(graph, borders, depth),
        product_(rewriter_.op_for("leat.MatMul", kind)),
        concat_(rewriter_.op_for("Concat", kind)) {
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      if (const auto biased = biased_product(id)) {
        biased_[id] = *biased;
        absorbed_.insert(biased->product);
      }
      if (drops_output(id) || drops_bias(id)) trimmed_.insert(id);
      if (const NodeId cast = narrow_result(id); cast != kNone) {
        narrow_results_[id] = cast;
        absorbed_.insert(cast);
      }
      if (const NodeId cast = narrow_gradient(id); cast != kNone) {
        narrow_gradients_[id] = cast;
        absorbed_.insert(cast);
      }
    }
    // From the last to the first: the root of a tree of sums comes before its branches.
    for (NodeId id = static_cast<NodeId>(graph.nodes()); id-- > 0;) find_slices(id);
  }

  bool finds_any() const { return !absorbed_.empty() || !trimmed_.empty() || !sums_.empty(); }

  Result<Graph> run(Borders& borders, std::vector<uint32_t>& depth) {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph_.topological_order());
    for (const NodeId id : order) {
      if (absorbed_.contains(id)) continue;
      if (const auto biased = biased_.find(id); biased != biased_.end())
        add_bias(id, biased->second);
      else if (const auto sum = sums_.find(id); sum != sums_.end())
        concatenate(id, sum->second);
      else if (trimmed_.contains(id))
        trim(id);
      else if (narrow_results_.contains(id))
        narrow(id);
      else if (const auto cast = narrow_gradients_.find(id); cast != narrow_gradients_.end())
        read_narrow(id, cast->second);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish(borders, depth);
  }

 private:
  // --- biases of products ---

  // The product of an Add of a row to a product.
  std::optional<Biased> biased_product(NodeId add) const {
    const Node& sum = graph_.node(add);
    if (!product_ || !is_op(sum, "Add") || !sum.after.empty()) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId y = sum.inputs[i], bias = sum.inputs[1 - i];
      const Node* node = rewriter_.made_by(y);
      if (!node || rewriter_.only_reader(y) != add ||
          (node->op != product_ && !is_op(*node, "MatMul")) || node->inputs.size() > 2 ||
          attr_float(node->attrs, "alpha", 1) != 1 ||
          !attr_string(node->attrs, "leat_activation").empty())
        continue;
      const SymbolicShape &shape = rewriter_.type(y).shape, &row = rewriter_.type(bias).shape;
      if (rewriter_.type(node->inputs[1]).shape.rank() == 2 && row.rank() == 1 &&
          shape.rank() > 1 && row[0] == shape[shape.rank() - 1] &&
          rewriter_.type(sum.outputs[0]).shape == shape && is_float(rewriter_.type(y).dtype))
        return Biased{rewriter_.producer(y), bias};
    }
    return std::nullopt;
  }
  void add_bias(NodeId add, const Biased& biased) {
    const Node& old = graph_.node(biased.product);
    const ValueId result = graph_.node(add).outputs[0];
    const NodeId made =
        rewriter_.add(biased.product, *product_,
                      {rewriter_.value(old.inputs[0]), rewriter_.value(old.inputs[1]),
                       rewriter_.value(biased.bias)},
                      old.attrs, {rewriter_.type(result)});
    rewriter_.replace(result, rewriter_.to().node(made).outputs[0]);
    rewriter_.map_node(add, made);
  }

  // --- what nobody needs ---

  // The gradient of a bias is the second output.
  bool drops_output(NodeId id) const {
    const Node& node = graph_.node(id);
    return is_op(node, "leat.ConvGradWeights") && node.outputs.size() == 2 &&
           node.outputs[1] != kNone && rewriter_.readers(node.outputs[1]).empty() &&
           !rewriter_.is_fetched(node.outputs[1]);
  }
  bool drops_bias(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "Conv") || node.inputs.size() != 3) return false;
    const Tensor* bias = rewriter_.constant(node.inputs[2]);
    for (int64_t i = 0; bias && i < bias->elements(); ++i) {
      if (bias->at(i) != 0) return false;
    }
    return bias != nullptr;
  }
  void trim(NodeId id) {
    const Node& old = graph_.node(id);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < (is_op(old, "Conv") ? 2 : old.inputs.size()); ++i)
      inputs.push_back(rewriter_.value(old.inputs[i]));
    const NodeId made =
        rewriter_.add(id, *old.op, std::move(inputs), old.attrs, {rewriter_.type(old.outputs[0])});
    rewriter_.replace(old.outputs[0], rewriter_.to().node(made).outputs[0]);
  }

  // --- 16 bits beside 32 ---

  // The conversion to 16 bits that alone reads the result of a layer norm in float; or kNone.
  NodeId narrow_result(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "LayerNormalization") || node.attrs.contains("leat_to") ||
        rewriter_.type(node.outputs[0]).dtype != DType::f32)
      return kNone;
    const NodeId cast = rewriter_.only_reader(node.outputs[0]);
    const bool fits = cast != kNone && is_op(graph_.node(cast), "Cast") &&
                      graph_.node(cast).after.empty() &&
                      is_16bit_float(rewriter_.type(graph_.node(cast).outputs[0]).dtype);
    return fits ? cast : kNone;
  }
  void narrow(NodeId id) {
    const NodeId cast = narrow_results_.at(id);
    const ValueId result = graph_.node(cast).outputs[0];
    const NodeId made = rewriter_.copy(id);
    Node& node = rewriter_.to().node(made);
    const DType dtype = rewriter_.type(result).dtype;
    node.attrs["leat_to"] = int64_t{dtype_onnx_code(dtype)};
    rewriter_.to().value(node.outputs[0]).type.dtype = dtype;
    rewriter_.replace(result, node.outputs[0]);
    rewriter_.map_node(cast, made);
  }
  // The gradient that a layer norm's gradient or an optimizer reads; -1 for other nodes.
  static int gradient_input(const Node& node) {
    if (is_op(node, "leat.LayerNormalizationGrad")) return 0;
    const auto& inputs = node.op->inputs;
    if (!node.op->name.starts_with("Apply") || node.op->domain != "leat") return -1;
    const auto grad = std::find_if(inputs.begin(), inputs.end(),
                                   [](const Operand& operand) { return operand.name == "grad"; });
    return grad == inputs.end() ? -1 : static_cast<int>(grad - inputs.begin());
  }
  // The conversion from 16 bits of the gradient that the node alone reads; or kNone.
  NodeId narrow_gradient(NodeId id) const {
    const Node& node = graph_.node(id);
    const int at = gradient_input(node);
    if (at < 0 || node.attrs.contains("lazy") || has_ids(node)) return kNone;
    const ValueId gradient = node.inputs[static_cast<size_t>(at)];
    if (rewriter_.type(gradient).dtype != DType::f32 || rewriter_.only_reader(gradient) != id)
      return kNone;
    const NodeId cast = rewriter_.producer(gradient);
    const bool fits = cast != kNone && is_op(graph_.node(cast), "Cast") &&
                      graph_.node(cast).after.empty() &&
                      is_16bit_float(rewriter_.type(graph_.node(cast).inputs[0]).dtype);
    return fits ? cast : kNone;
  }
  // True for an optimizer that gets a gradient of rows.
  static bool has_ids(const Node& node) {
    const auto& inputs = node.op->inputs;
    for (size_t i = 0; i < std::min(inputs.size(), node.inputs.size()); ++i) {
      if (inputs[i].name == "ids" && node.inputs[i] != kNone) return true;
    }
    return false;
  }
  void read_narrow(NodeId id, NodeId cast) {
    const Node& old = graph_.node(id);
    const ValueId wide = old.inputs[static_cast<size_t>(gradient_input(old))];
    const ValueId narrow = graph_.node(cast).inputs[0];
    rewriter_.map_value(wide, rewriter_.value(narrow));
    Node& made = rewriter_.to().node(rewriter_.copy(id));
    made.attrs["leat_from"] = int64_t{dtype_onnx_code(rewriter_.type(narrow).dtype)};
  }

  // --- sums of gradients of slices ---

  void find_slices(NodeId id) {
    if (!concat_ || absorbed_.contains(id) || !is_op(graph_.node(id), "Add")) return;
    std::vector<NodeId> slices;
    std::vector<NodeId> adds;
    if (!collect(id, slices, adds)) return;
    std::map<int64_t, std::pair<int64_t, ValueId>> by_start;  // -> end, gradient
    std::optional<int64_t> axis;
    for (const NodeId slice : slices) {
      const auto place = place_of(slice);
      if (!place || (axis && *axis != place->axis) ||
          !by_start.try_emplace(place->start, place->end, graph_.node(slice).inputs[0]).second)
        return;
      axis = place->axis;
    }
    SliceSum sum{{}, *axis};
    int64_t end = 0;
    for (const auto& [start, rest] : by_start) {
      if (start != end) return;
      end = rest.first;
      sum.gradients.push_back(rest.second);
    }
    const Dim size = rewriter_.type(graph_.node(id).outputs[0]).shape[static_cast<int>(*axis)];
    if (!(size == Dim::of(end))) return;
    sums_[id] = std::move(sum);
    adds.erase(adds.begin());  // the root
    absorbed_.insert(adds.begin(), adds.end());
    absorbed_.insert(slices.begin(), slices.end());
  }
  // The leaves of a tree of Adds, if all are gradients of slices, and the Adds, the root first.
  bool collect(NodeId id, std::vector<NodeId>& slices, std::vector<NodeId>& adds) const {
    const Node& node = graph_.node(id);
    if (is_op(node, "leat.SliceGrad")) {
      slices.push_back(id);
      return true;
    }
    if (!is_op(node, "Add") || !node.after.empty()) return false;
    adds.push_back(id);
    for (const ValueId input : node.inputs) {
      const NodeId producer = rewriter_.producer(input);
      if (producer == kNone || rewriter_.only_reader(input) != id ||
          graph_.node(producer).outputs.size() != 1 || !collect(producer, slices, adds))
        return false;
    }
    return true;
  }
  // Nothing if the gradient is not of a range along one axis.
  std::optional<SlicePlace> place_of(NodeId slice) const {
    const Node& node = graph_.node(slice);
    const auto from = rewriter_.type(node.inputs[0]).shape.concrete(),
               to = rewriter_.type(node.outputs[0]).shape.concrete();
    if (!from || !to || from->rank() != to->rank() || !node.after.empty()) return std::nullopt;
    std::optional<SlicePlace> place;
    const auto list = [&](size_t i) {
      return i < node.inputs.size() ? rewriter_.constant(node.inputs[i]) : nullptr;
    };
    const Tensor *starts = list(2), *ends = list(3), *axes = list(4), *steps = list(5);
    if (!starts || !ends || (node.inputs.size() > 4 && node.inputs[4] != kNone && !axes) ||
        (node.inputs.size() > 5 && node.inputs[5] != kNone && !steps))
      return std::nullopt;
    for (int64_t i = 0; i < starts->elements(); ++i) {
      if (steps && steps->at(i) != 1) return std::nullopt;
      int64_t axis = axes ? static_cast<int64_t>(axes->at(i)) : i;
      if (axis < 0) axis += to->rank();
      const int64_t size = (*to)[static_cast<int>(axis)];
      const auto bound = [&](double at) {
        const auto written = static_cast<int64_t>(
            std::clamp(at, -static_cast<double>(size), static_cast<double>(size)));
        return written < 0 ? written + size : written;
      };
      const SlicePlace found{axis, bound(starts->at(i)), bound(ends->at(i))};
      if (found.start == 0 && found.end == size) continue;
      if (place) return std::nullopt;
      place = found;
    }
    if (place && (*from)[static_cast<int>(place->axis)] != place->end - place->start)
      return std::nullopt;
    return place;
  }
  void concatenate(NodeId id, const SliceSum& sum) {
    std::vector<ValueId> inputs;
    for (const ValueId gradient : sum.gradients) inputs.push_back(rewriter_.value(gradient));
    const ValueId result = graph_.node(id).outputs[0];
    const NodeId made = rewriter_.add(id, *concat_, std::move(inputs), {{"axis", sum.axis}},
                                      {rewriter_.type(result)});
    rewriter_.replace(result, rewriter_.to().node(made).outputs[0]);
  }

  const Graph& graph_;
  PartRewriter rewriter_;
  const OpDef *product_, *concat_;
  std::map<NodeId, Biased> biased_;                             // by Add
  std::map<NodeId, SliceSum> sums_;                             // by the last Add
  std::map<NodeId, NodeId> narrow_results_, narrow_gradients_;  // to the Cast
  std::set<NodeId> trimmed_, absorbed_;
};

}  // namespace

Result<Graph> lighten(Graph graph, Borders& borders, std::vector<uint32_t>& depth,
                      const std::string& kind) {
  const std::vector<uint32_t> old_depth = depth;
  Lightening pass(graph, borders, old_depth, kind);
  if (!pass.finds_any()) return graph;
  return pass.run(borders, depth);
}

}  // namespace leat
