#include <map>
#include <optional>
#include <set>

#include "ops/graph/validate.h"
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
        kind_(kind),
        rewriter_(graph, borders, depth),
        product_(rewriter_.op_for("leat.MatMul", kind)),
        concat_(rewriter_.op_for("Concat", kind)) {}

  // Finds what is to be rewritten; false if there is nothing.
  Result<bool> find() {
    LEAT_ASSIGN_OR_RETURN(order_, graph_.topological_order());
    for (const NodeId id : order_) {
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
    count_slices();
    // From the last to the first: the root of a tree of sums comes before its branches.
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) find_slices(*id);
    return !absorbed_.empty() || !trimmed_.empty() || !sums_.empty();
  }

  Result<Graph> run(Borders& borders, std::vector<uint32_t>& depth) {
    for (const NodeId id : order_) {
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
          !rewriter_.is_movable(rewriter_.producer(y)) ||
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

  // --- outputs that no node needs ---

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

  // True if the device's kernel says that it has the node with these changes of its types.
  template <typename Change>
  bool supports(const Node& node, Change change) const {
    const auto predicate = node.op->supports.find(kind_);
    const Attrs attrs = with_defaults(*node.op, node.attrs);
    auto types = concrete_types(graph_, node, attrs);
    if (predicate == node.op->supports.end() || !types.ok()) return false;
    change(*types);
    return predicate->second(*types);
  }

  // The conversion to 16 bits that alone reads the result of a layer norm in float; or kNone.
  NodeId narrow_result(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "LayerNormalization") || node.attrs.contains("leat_to") ||
        rewriter_.type(node.outputs[0]).dtype != DType::f32)
      return kNone;
    const NodeId cast = rewriter_.only_reader(node.outputs[0]);
    if (cast == kNone || !is_op(graph_.node(cast), "Cast") || !rewriter_.is_movable(cast))
      return kNone;
    const DType narrow = rewriter_.type(graph_.node(cast).outputs[0]).dtype;
    const bool fits = is_16bit_float(narrow) &&
                      supports(node, [&](OpTypes& types) { types.outputs[0].dtype = narrow; });
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
    if (cast == kNone || !is_op(graph_.node(cast), "Cast") || !rewriter_.is_movable(cast))
      return kNone;
    const DType narrow = rewriter_.type(graph_.node(cast).inputs[0]).dtype;
    const bool fits = is_16bit_float(narrow) && supports(node, [&](OpTypes& types) {
                        types.inputs[static_cast<size_t>(at)].dtype = narrow;
                      });
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

  // Counts, for each Add, the gradients of slices of one shape that a tree of Adds sums there; 0 if
  // it sums something else, too.
  void count_slices() {
    slices_of_.assign(graph_.nodes(), 0);
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (is_op(node, "leat.SliceGrad")) slices_of_[id] = 1;
      if (!is_op(node, "Add") || !node.after.empty()) continue;
      size_t sum = 0;
      for (const ValueId input : node.inputs) {
        const NodeId producer = rewriter_.producer(input);
        const bool fits = producer != kNone && slices_of_[producer] > 0 &&
                          rewriter_.only_reader(input) == id && rewriter_.is_movable(producer) &&
                          rewriter_.type(input).shape == rewriter_.type(node.outputs[0]).shape;
        sum = fits ? sum + slices_of_[producer] : kMostSlices + 1;
        if (sum > kMostSlices) break;
      }
      slices_of_[id] = sum > kMostSlices ? 0 : sum;
    }
  }
  void find_slices(NodeId id) {
    if (!concat_ || absorbed_.contains(id) || !is_op(graph_.node(id), "Add") || slices_of_[id] == 0)
      return;
    std::vector<NodeId> slices;
    std::vector<NodeId> adds;
    collect(id, slices, adds);
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
  // The leaves of a tree of Adds, and the Adds, the root first.
  void collect(NodeId id, std::vector<NodeId>& slices, std::vector<NodeId>& adds) const {
    if (is_op(graph_.node(id), "leat.SliceGrad")) {
      slices.push_back(id);
      return;
    }
    adds.push_back(id);
    for (const ValueId input : graph_.node(id).inputs)
      collect(rewriter_.producer(input), slices, adds);
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

  static constexpr size_t kMostSlices = 64;  // of one sum

  const Graph& graph_;
  const std::string& kind_;  // of the device
  PartRewriter rewriter_;
  const OpDef *product_, *concat_;
  std::vector<NodeId> order_;
  std::vector<size_t> slices_of_;                               // by node
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
  LEAT_ASSIGN_OR_RETURN(const bool found, pass.find());
  if (!found) return graph;
  return pass.run(borders, depth);
}

}  // namespace leat
