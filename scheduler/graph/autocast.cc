#include "scheduler/graph/autocast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "devices/base/glob.h"
#include "devices/base/text.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

bool matches(const Graph& graph, const Node& node, const std::string& pattern) {
  if (matches_glob(pattern, node.op->full_name())) return true;
  if (!node.name.empty() && matches_glob(pattern, node.name)) return true;
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
    if (output == kNone) return false;
    const std::string& name = graph.value_name(output);
    return !name.empty() && matches_glob(pattern, name);
  });
}

// The operand of the signature that operand number `i` of a node belongs to.
const Operand& formal(const std::vector<Operand>& operands, size_t i) {
  return operands[std::min(i, operands.size() - 1)];
}

// True for a finite number that becomes infinite in 16 bits, and for a lone one that becomes zero,
// such as what keeps a divisor from being zero.
bool exceeds(const Tensor& value, DType compute) {
  const double most = compute == DType::f16 ? 65504 : 3.3895313892515355e38;
  const double least = compute == DType::f16 && value.elements() == 1 ? 0x1p-25 : 0;
  for (int64_t i = 0; i < value.elements(); ++i) {
    const double x = std::abs(value.at(i));
    if (x > most && x < std::numeric_limits<double>::infinity()) return true;
    if (x > 0 && x <= least) return true;
  }
  return false;
}

class Autocast {
 public:
  Autocast(const Graph& graph, const AutocastSpec& spec)
      : from_(graph),
        spec_(spec),
        rewriter_(graph),
        state_(graph.values()),
        precision_(graph.nodes()) {}

  Result<Graph> run(Borders& borders) {
    LEAT_ASSIGN_OR_RETURN(order_, from_.topological_order());
    for (const NodeId id : order_) classify(id);
    find_wanted(borders);
    for (const NodeId id : order_) {
      if (is_op(from_.node(id), "leat.Gradients"))
        copy_gradients(id);
      else
        copy(id);
    }
    // People and losses see float32.
    for (const ValueId value : from_.outputs()) rewriter_.map_value(value, in_type(value, false));
    for (const ValueId value : borders.fetches) rewriter_.map_value(value, in_type(value, false));
    return rewriter_.finish(borders);
  }

 private:
  struct State {
    bool fixed = false;     // made of variables and constants alone, so that a cast loses nothing
    bool large = false;     // a constant that 16 bits do not hold, or made of one
    bool wanted = false;    // all readers want it in 16 bits
    bool narrow = false;    // the new graph has it in 16 bits
    ValueId other = kNone;  // in the new graph: the value in the other type, once it is needed
  };

  bool is_float32(ValueId value) const {
    if (value == kNone) return false;
    const ValueType& type = from_.value(value).type;
    return type.kind == ValueKind::tensor && type.dtype == DType::f32;
  }

  // The type variable of the signature that becomes 16 bits: that of the first float32 output, or
  // else of the first float32 input. Empty if there is none that 16 bits are allowed for.
  std::string_view variable_of(const Node& node) const {
    std::string_view found;
    for (size_t i = node.outputs.size(); i-- > 0;) {
      if (is_float32(node.outputs[i])) found = formal(node.op->outputs, i).type;
    }
    for (size_t i = node.inputs.size(); found.empty() && i-- > 0;) {
      if (is_float32(node.inputs[i])) found = formal(node.op->inputs, i).type;
    }
    const auto type = node.op->types.find(found);
    const bool allowed = type != node.op->types.end() && type->second.has(spec_.compute);
    return allowed ? found : std::string_view();
  }

  // True for an input that takes the type that the node computes in.
  static bool takes_part(const Node& node, size_t input, std::string_view variable) {
    const std::string& type = formal(node.op->inputs, input).type;
    return type == variable || (!type.empty() && type == beside_of(*node.op));
  }

  // Calls f(value) for each float32 input that takes part.
  template <typename F>
  void for_each_input(const Node& node, std::string_view variable, const F& f) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (is_float32(node.inputs[i]) && takes_part(node, i, variable)) f(node.inputs[i]);
    }
  }

  void classify(NodeId id) {
    const Node& node = from_.node(id);
    const auto any = [&](const std::vector<std::string>& patterns) {
      return std::any_of(patterns.begin(), patterns.end(),
                         [&](const std::string& pattern) { return matches(from_, node, pattern); });
    };
    OpPrecision precision = precision_of(*node.op);
    // A Constant or a Cast makes what its attributes say, and a variable gets its own type,
    // whatever the patterns say.
    bool has_input = false;
    for_each_input(node, variable_of(node), [&](ValueId) { has_input = true; });
    if (has_input && node.op->writes.empty() && any(spec_.narrow)) precision = OpPrecision::narrow;
    if (any(spec_.wide)) precision = OpPrecision::wide;
    if (variable_of(node).empty()) precision = OpPrecision::wide;
    precision_[id] = precision;
    State state;
    state.fixed =
        is_op(node, "leat.Read") || (node.op->pure() && node.op->domain.empty() && all_fixed(node));
    if (const auto value = node.attrs.find("value"); is_op(node, "Constant")) {
      const auto* tensor =
          value == node.attrs.end() ? nullptr : std::get_if<Tensor>(&value->second);
      state.large = tensor && tensor->dtype() == DType::f32 && exceeds(*tensor, spec_.compute);
    }
    for (const ValueId input : node.inputs)
      state.large = state.large || (state.fixed && input != kNone && state_[input].large);
    for (const ValueId output : node.outputs) {
      if (output != kNone) state_[output] = state;
    }
  }

  bool all_fixed(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId input) { return input == kNone || state_[input].fixed; });
  }

  // True for an op with one float32 input, all of whose elements it hands on: a cast before it and
  // a cast behind it are the same, and one of a weight before its transposition is one for all.
  bool passes_on(const Node& node) const {
    return is_op(node, "Transpose") || (node.op->view && node.op->domain.empty());
  }

  // From the end to the beginning: a value is wanted if all of its readers compute in 16 bits, or
  // hand it on to such.
  void find_wanted(const Borders& borders) {
    std::vector<size_t> readers(from_.values(), 0), wants(from_.values(), 0);
    for (const ValueId value : from_.outputs()) ++readers[value];
    for (const ValueId value : borders.fetches) ++readers[value];
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Node& node = from_.node(*id);
      for (const ValueId output : node.outputs) {
        if (output != kNone)
          state_[output].wanted = readers[output] > 0 && readers[output] == wants[output];
      }
      for (const ValueId input : node.inputs) {
        if (input != kNone) ++readers[input];
      }
      const OpPrecision precision = precision_[*id];
      const bool wanted =
          precision == OpPrecision::narrow ||
          (precision == OpPrecision::follows && passes_on(node) && state_[node.outputs[0]].wanted);
      if (wanted) for_each_input(node, variable_of(node), [&](ValueId input) { ++wants[input]; });
    }
  }

  bool computes_narrow(NodeId id) const {
    const Node& node = from_.node(id);
    bool any = false, all = true, large = false;
    for_each_input(node, variable_of(node), [&](ValueId input) {
      const State& state = state_[input];
      any = any || state.narrow;
      large = large || state.large;
      all = all && (state.narrow || state.fixed);
    });
    if (large || precision_[id] == OpPrecision::wide) return false;
    if (precision_[id] == OpPrecision::narrow) return true;
    return any ? all : passes_on(node) && state_[node.outputs[0]].wanted;
  }

  void copy(NodeId id) {
    const Node& node = from_.node(id);
    const std::string_view variable = variable_of(node);
    // A Cast takes either type, and a value that it makes has the type that it names.
    const bool casts = is_op(node, "Cast") && precision_[id] == OpPrecision::follows;
    const bool narrow = !casts && computes_narrow(id);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool lowered = narrow && takes_part(node, i, variable);
      inputs.push_back(casts ? rewriter_.value(node.inputs[i]) : in_type(node.inputs[i], lowered));
    }
    const NodeId made = rewriter_.copy(id);
    rewriter_.to().node(made).inputs = std::move(inputs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (narrow && is_float32(output) && formal(node.op->outputs, i).type == variable)
        state_[output].narrow = true;
    }
  }

  // A gradient has the type of its x, which must be the very value that y was made from.
  void copy_gradients(NodeId id) {
    const Node& node = from_.node(id);
    const ValueId y = in_type(node.inputs[0], false);
    const NodeId made = rewriter_.copy(id);
    rewriter_.to().node(made).inputs[0] = y;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone)
        state_[node.outputs[i]].narrow = state_[node.inputs[i + 1]].narrow;
    }
  }

  // The value of the new graph that is `value` in 16 bits, or in float32. Other types stay.
  ValueId in_type(ValueId value, bool narrow) {
    if (!is_float32(value) || state_[value].narrow == narrow) return rewriter_.value(value);
    ValueId& other = state_[value].other;
    if (other != kNone) return other;
    const int64_t to = dtype_onnx_code(narrow ? spec_.compute : DType::f32);
    const OpDef& cast = *from_.catalogue().find("Cast");
    const NodeId made = rewriter_.add(cast, {rewriter_.value(value)}, {{"to", to}}, 1);
    const NodeId producer = from_.value(value).producer;
    if (producer != kNone) rewriter_.to().node(made).device = from_.node(producer).device;
    return other = rewriter_.to().node(made).outputs[0];
  }

  const Graph& from_;
  const AutocastSpec& spec_;
  Rewriter rewriter_;
  std::vector<NodeId> order_;
  std::vector<State> state_;            // by value
  std::vector<OpPrecision> precision_;  // by node
};

}  // namespace

Result<Graph> autocast(Graph graph, Borders& borders, const AutocastSpec& spec) {
  if (!spec.enabled()) return graph;
  LEAT_RETURN_IF_ERROR(validate(graph));
  return Autocast(graph, spec).run(borders);
}

Status check_patterns(const Graph& graph, const AutocastSpec& spec) {
  for (const auto* patterns : {&spec.wide, &spec.narrow}) {
    for (const std::string& pattern : *patterns) {
      bool found = false;
      for (NodeId id = 0; id < graph.nodes() && !found; ++id)
        found = matches(graph, graph.node(id), pattern);
      if (found) continue;
      return invalid_argument(cat("precision: expected the names of ops, nodes or values of '",
                                  graph.name, "', or globs that match some, received '", pattern,
                                  "', which matches none"));
    }
  }
  return {};
}

}  // namespace leat
