#include "ops/layers/control_flow.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "ops/layers/layers.h"

namespace leat {
namespace {

using ValueIds = std::vector<ValueId>;

// A graph whose nodes are being copied: the whole graph, or a region.
struct CopiedGraph {
  const Graph& from;
  ValueIds values = ValueIds(from.values(), kNone);                      // by old value
  std::vector<NodeId> nodes = std::vector<NodeId>(from.nodes(), kNone);  // by old node
  // Of a region: the names that its nodes begin with, the device of those that name none, the nodes
  // that run before all of it, and whether it has been copied before.
  bool is_region = false;
  std::string prefix = {};
  std::string device = {};
  std::vector<NodeId> after = {};
  bool is_repeated = false;
};

// A node with a region, and what the nodes in its place inherit from it.
struct ControlNode {
  const Node& node;
  std::string subject;  // for messages
  std::string label;    // for names
  ValueIds inputs;      // in the new graph, without the captures
  ValueIds captures;
  std::string device;
  std::vector<NodeId> after;
  bool is_repeated;
};

// The running condition of a Loop: true, or a value that only a step knows.
using Running = std::optional<ValueId>;

class Flattener {
 public:
  explicit Flattener(const Graph& from)
      : from_(from), to_(from.catalogue()), inference_(to_), next_source_(first_source(from)) {}

  Result<Graph> run() {
    LEAT_RETURN_IF_ERROR(check_limits(from_));
    to_.name = from_.name;
    CopiedGraph whole{from_};
    for (SymbolId id = 0; id < from_.symbols(); ++id)
      to_.symbol_info(to_.fresh_symbol()) = from_.symbol_info(id);
    for (const ValueId input : from_.inputs())
      whole.values[input] = to_.add_input(from_.value_name(input), from_.value(input).type);
    LEAT_RETURN_IF_ERROR(copy_nodes(whole));
    for (const ValueId output : from_.outputs()) to_.add_output(whole.values[output]);
    for (NodeId id = 0; id < to_.nodes(); ++id) {
      if (!to_.node(id).op->random) to_.node(id).source = id;
    }
    return std::move(to_);
  }

 private:
  // A number that no node of the graph or its regions draws by.
  static uint32_t first_source(const Graph& graph) {
    uint32_t next = 0;
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      const Node& node = graph.node(id);
      if (node.source != kNone) next = std::max(next, node.source + 1);
      for (const auto& [name, attr] : node.attrs) {
        const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr);
        if (region != nullptr) next = std::max(next, first_source(**region));
      }
    }
    return next;
  }

  Status copy_nodes(CopiedGraph& graph) {
    LEAT_ASSIGN_OR_RETURN(const auto order, graph.from.topological_order());
    for (const NodeId id : order) {
      const OpDef& op = *graph.from.node(id).op;
      LEAT_RETURN_IF_ERROR(is_control_flow(op) ? replace(graph, id) : copy(graph, id));
    }
    return {};
  }

  ValueIds values_of(const CopiedGraph& graph, const ValueIds& old) const {
    ValueIds values;
    for (const ValueId value : old) values.push_back(value == kNone ? kNone : graph.values[value]);
    return values;
  }
  std::vector<NodeId> befores(const CopiedGraph& graph, const Node& node) const {
    std::vector<NodeId> before = graph.after;
    for (const NodeId old : node.after) {
      if (graph.nodes[old] != kNone) before.push_back(graph.nodes[old]);
    }
    return before;
  }

  Status copy(CopiedGraph& graph, NodeId id) {
    const Node& old = graph.from.node(id);
    if (graph.is_region) LEAT_RETURN_IF_ERROR(check_in_region(graph, id));
    const NodeId made = to_.add_node(*old.op, values_of(graph, old.inputs), old.attrs, 0);
    for (size_t i = 0; i < old.outputs.size(); ++i) {
      if (old.outputs[i] == kNone) continue;
      const ValueId now = to_.ensure_output(made, static_cast<int>(i));
      if (!graph.is_region) to_.set_value_name(now, graph.from.value_name(old.outputs[i]));
      graph.values[old.outputs[i]] = now;
    }
    Node& node = to_.node(made);
    node.outputs.resize(old.outputs.size(), kNone);
    node.after = befores(graph, old);
    node.device = old.device.empty() ? graph.device : old.device;
    node.name = graph.is_region ? name_in(graph, id) : old.name;
    node.source = graph.is_repeated ? next_source_++ : old.source;
    node.first_row = old.first_row;
    graph.nodes[id] = made;
    return inference_.infer(made);
  }

  // Counts an iteration, or a node that a region or its control node adds.
  Status count(std::string_view subject) {
    if (++made_ <= kMostUnrolledNodes) return {};
    return invalid_argument(cat("'", subject, "': expected at most ", kMostUnrolledNodes,
                                " nodes in all iterations and branches of a graph, received more; "
                                "use fewer iterations, or a smaller body"));
  }

  // "scan/3/add": the node's name, or that of its output, or its op.
  static std::string name_in(const CopiedGraph& graph, NodeId id) {
    const Node& node = graph.from.node(id);
    std::string name = node.name;
    if (name.empty() && !node.outputs.empty() && node.outputs[0] != kNone)
      name = graph.from.value_name(node.outputs[0]);
    if (name.empty()) name = node.op->name;
    return cat(graph.prefix, "/", name).substr(0, limits::kNameLength);
  }

  // A layer or a variable in a region would be one for each copy, and an effect could not be left
  // out with its branch.
  Status check_in_region(const CopiedGraph& graph, NodeId id) {
    LEAT_RETURN_IF_ERROR(count(graph.prefix));
    const OpDef& op = *graph.from.node(id).op;
    if (!is_layer(op) && !op.stateful && !op.make_resource && op.writes.empty()) return {};
    return unimplemented(cat("'", graph.prefix, "': expected no ",
                             is_layer(op) ? "layers" : "effects", " in a region, received ",
                             graph.from.describe_node(id)));
  }

  // Adds a node that the control node needs, and returns its outputs.
  Result<ValueIds> emit_n(const ControlNode& of, std::string_view op, ValueIds inputs, Attrs attrs,
                          int outputs) {
    const OpDef* def = to_.catalogue().find(op);
    if (def == nullptr) return unimplemented(cat(of.subject, ": this build lacks ", op));
    LEAT_RETURN_IF_ERROR(count(of.label));
    const NodeId made = to_.add_node(*def, std::move(inputs), std::move(attrs), outputs);
    Node& node = to_.node(made);
    node.device = of.device;
    node.after = of.after;
    node.name = of.label;
    const Status inferred = inference_.infer(made);
    if (!inferred.ok()) return inferred.while_doing(cat("expanding ", of.subject));
    return to_.node(made).outputs;
  }
  Result<ValueId> emit(const ControlNode& of, std::string_view op, ValueIds inputs,
                       Attrs attrs = {}) {
    LEAT_ASSIGN_OR_RETURN(const ValueIds made,
                          emit_n(of, op, std::move(inputs), std::move(attrs), 1));
    return made[0];
  }
  Result<ValueId> constant(const ControlNode& of, Tensor value) {
    return emit(of, "Constant", {}, {{"value", std::move(value)}});
  }
  Result<ValueId> axis_list(const ControlNode& of, int64_t axis) {
    return constant(of, Tensor::of<int64_t>({1}, {axis}));
  }

  // --- regions ---------------------------------------------------------------------------------

  Result<const Graph*> region_of(const ControlNode& of, std::string_view name) const {
    const auto attr = of.node.attrs.find(name);
    const auto* region =
        attr == of.node.attrs.end() ? nullptr : std::get_if<std::shared_ptr<Graph>>(&attr->second);
    if (region != nullptr) return region->get();
    return invalid_argument(cat(of.subject, ": the region '", name, "' is missing"));
  }

  // Copies a region that reads `operands` and the captures, and returns its outputs.
  Result<ValueIds> inlined(const ControlNode& of, const Graph& region, ValueIds operands,
                           std::string prefix, bool is_later) {
    if (region.inputs().size() != operands.size()) {
      return invalid_argument(cat(of.subject, ": expected a region of ",
                                  operands.size() - of.captures.size(), " inputs, received ",
                                  region.inputs().size() - of.captures.size()));
    }
    CopiedGraph graph{region};
    graph.is_region = true;
    graph.prefix = std::move(prefix);
    graph.device = of.device;
    graph.after = of.after;
    graph.is_repeated = of.is_repeated || is_later;
    for (size_t i = 0; i < operands.size(); ++i) graph.values[region.inputs()[i]] = operands[i];
    const Status copied = copy_nodes(graph);
    if (!copied.ok()) return copied.while_doing(cat("expanding ", of.subject));
    return values_of(graph, region.outputs());
  }

  // The operands of a branch. Only floats carry a gradient, and only what a step computes.
  Result<ValueIds> entered(const ControlNode& of, const Graph& region, ValueIds operands,
                           ValueId condition, bool branch) {
    const auto readers = region.consumers();
    for (size_t i = 0; i < operands.size() && i < region.inputs().size(); ++i) {
      const ValueId input = region.inputs()[i];
      const auto& outputs = region.outputs();
      const bool used = !readers[input].empty() ||
                        std::find(outputs.begin(), outputs.end(), input) != outputs.end();
      const ValueType& type = to_.value(operands[i]).type;
      if (!used || type.kind != ValueKind::tensor || !is_float(type.dtype) ||
          inference_.constant(operands[i])) {
        continue;
      }
      LEAT_ASSIGN_OR_RETURN(operands[i], emit(of, "leat.Enter", {operands[i], condition},
                                              {{"branch", int64_t{branch}}}));
    }
    return operands;
  }

  Result<ValueId> merged(const ControlNode& of, ValueId condition, ValueId of_then,
                         ValueId of_else) {
    if (of_then == of_else) return of_then;
    return emit(of, "leat.Merge", {condition, of_then, of_else});
  }

  // The value of a bool of one element, if it is known.
  std::optional<bool> known(ValueId value) const {
    const Tensor* tensor = inference_.constant(value);
    if (tensor == nullptr || tensor->elements() != 1) return std::nullopt;
    return tensor->at(0) != 0;
  }

  // --- If --------------------------------------------------------------------------------------

  Result<ValueIds> branches(const ControlNode& of) {
    if (of.inputs.empty() || of.inputs[0] == kNone)
      return invalid_argument(cat(of.subject, ": expected a condition, received none"));
    const ValueId condition = of.inputs[0];
    LEAT_ASSIGN_OR_RETURN(const Graph* then_branch, region_of(of, "then_branch"));
    LEAT_ASSIGN_OR_RETURN(const Graph* else_branch, region_of(of, "else_branch"));
    if (const auto taken = known(condition)) {
      return inlined(of, *taken ? *then_branch : *else_branch, of.captures, of.label, false);
    }
    LEAT_ASSIGN_OR_RETURN(ValueIds operands,
                          entered(of, *then_branch, of.captures, condition, true));
    LEAT_ASSIGN_OR_RETURN(const ValueIds a, inlined(of, *then_branch, std::move(operands),
                                                    cat(of.label, "/then"), false));
    LEAT_ASSIGN_OR_RETURN(operands, entered(of, *else_branch, of.captures, condition, false));
    LEAT_ASSIGN_OR_RETURN(const ValueIds b, inlined(of, *else_branch, std::move(operands),
                                                    cat(of.label, "/else"), false));
    if (a.size() != b.size()) {
      return invalid_argument(cat(of.subject, ": expected as many outputs from both branches, ",
                                  "received ", a.size(), " and ", b.size()));
    }
    ValueIds results;
    for (size_t i = 0; i < a.size(); ++i) {
      LEAT_ASSIGN_OR_RETURN(const ValueId merge, merged(of, condition, a[i], b[i]));
      results.push_back(merge);
    }
    return results;
  }

  // --- Loop ------------------------------------------------------------------------------------

  // The bound M of a Loop; nothing if it has none.
  Result<std::optional<int64_t>> trips_of(const ControlNode& of) const {
    if (of.inputs.empty() || of.inputs[0] == kNone) return std::optional<int64_t>();
    const Tensor* count = inference_.constant(of.inputs[0]);
    if (count != nullptr && count->elements() == 1) return std::optional(count->int_at(0));
    return unimplemented(cat(of.subject,
                             ": expected a trip count that is known when the graph is loaded, '",
                             to_.describe(of.inputs[0]),
                             "' is computed in the step; give M as a "
                             "constant bound, and end the loop earlier by its condition"));
  }

  // The number of the iteration has the shape that the body declares: no axis, or one of size 1.
  static Tensor iteration(const Graph& body, int64_t i) {
    if (body.inputs().empty() || body.value(body.inputs()[0]).type.shape.rank() != 1)
      return Tensor::scalar<int64_t>(i);
    return Tensor::of<int64_t>({1}, {i});
  }

  // The values that a Loop carries from one iteration to the next.
  struct LoopState {
    ValueIds carried;
    Running running;
    bool ended = false;
    std::vector<ValueIds> scanned;  // by scan output: its values
  };

  Result<ValueIds> loop(const ControlNode& of) {
    LEAT_ASSIGN_OR_RETURN(const Graph* body, region_of(of, "body"));
    LEAT_ASSIGN_OR_RETURN(const auto trips, trips_of(of));
    LoopState state;
    if (of.inputs.size() > 2) state.carried.assign(of.inputs.begin() + 2, of.inputs.end());
    const size_t carried = state.carried.size();
    if (body->outputs().size() < carried + 1) {
      return invalid_argument(cat(of.subject, ": expected a body of at least ", carried + 1,
                                  " outputs, received ", body->outputs().size()));
    }
    state.scanned.resize(body->outputs().size() - carried - 1);
    if (of.inputs.size() > 1 && of.inputs[1] != kNone)
      LEAT_RETURN_IF_ERROR(go_on_if(of, state, of.inputs[1]));
    for (int64_t i = 0; !state.ended && (!trips || i < *trips); ++i) {
      if (state.running && !trips) {
        return unimplemented(cat(of.subject,
                                 ": expected a Loop with a bound, it ends by a condition that is "
                                 "computed in the step; give M as a constant"));
      }
      LEAT_RETURN_IF_ERROR(iterate(of, *body, i, state));
    }
    ValueIds results = state.carried;
    for (size_t s = 0; s < state.scanned.size(); ++s) {
      if (state.scanned[s].empty()) {
        LEAT_ASSIGN_OR_RETURN(const ValueId none, no_iterations(of, *body, s));
        results.push_back(none);
        continue;
      }
      LEAT_ASSIGN_OR_RETURN(const ValueId stack, stacked(of, state.scanned[s], 0));
      results.push_back(stack);
    }
    return results;
  }

  // Sets the running condition behind a value of it.
  Status go_on_if(const ControlNode& of, LoopState& state, ValueId condition) {
    const auto goes_on = known(condition);
    if (goes_on) {
      state.ended = !*goes_on;
      return {};
    }
    if (!state.scanned.empty()) {
      return unimplemented(cat(of.subject,
                               ": expected a Loop with scan outputs to make a number of "
                               "iterations that is known when the graph is loaded, its condition "
                               "is computed in the step"));
    }
    state.running = condition;
    return {};
  }

  Status iterate(const ControlNode& of, const Graph& body, int64_t i, LoopState& state) {
    LEAT_RETURN_IF_ERROR(count(of.label));
    LEAT_ASSIGN_OR_RETURN(const ValueId number, constant(of, iteration(body, i)));
    LEAT_ASSIGN_OR_RETURN(const ValueId yes, constant(of, Tensor::scalar<bool>(true)));
    ValueIds operands{number, yes};
    operands.insert(operands.end(), state.carried.begin(), state.carried.end());
    operands.insert(operands.end(), of.captures.begin(), of.captures.end());
    const Running running = state.running;
    if (running) {
      LEAT_ASSIGN_OR_RETURN(operands, entered(of, body, std::move(operands), *running, true));
    }
    LEAT_ASSIGN_OR_RETURN(const ValueIds made,
                          inlined(of, body, std::move(operands), cat(of.label, "/", i), i > 0));
    for (size_t c = 0; c < state.carried.size(); ++c) {
      const ValueId before = state.carried[c];
      state.carried[c] = made[c + 1];
      if (!running) continue;
      LEAT_ASSIGN_OR_RETURN(state.carried[c], merged(of, *running, made[c + 1], before));
    }
    for (size_t s = 0; s < state.scanned.size(); ++s)
      state.scanned[s].push_back(made[s + 1 + state.carried.size()]);
    const auto goes_on = known(made[0]);
    if (!running || goes_on) {
      // A loop that may have ended before goes on under the condition that it had.
      return running && goes_on && *goes_on ? Status() : go_on_if(of, state, made[0]);
    }
    const auto shape = to_.value(made[0]).type.shape.concrete();
    if (!shape || shape->elements() != 1) {
      return invalid_argument(cat(of.subject, ": condition: expected one element, received ",
                                  to_.type_text(to_.value(made[0]).type)));
    }
    Tensor never(DType::boolean, *shape);
    never.set(0, 0);
    LEAT_ASSIGN_OR_RETURN(const ValueId no, constant(of, std::move(never)));
    LEAT_ASSIGN_OR_RETURN(const ValueId next, merged(of, *running, made[0], no));
    state.running = next;
    return {};
  }

  // The scan output of a Loop without iterations: its body tells the type.
  Result<ValueId> no_iterations(const ControlNode& of, const Graph& body, size_t scan) {
    LoopState once;
    if (of.inputs.size() > 2) once.carried.assign(of.inputs.begin() + 2, of.inputs.end());
    once.scanned.resize(body.outputs().size() - once.carried.size() - 1);
    LEAT_RETURN_IF_ERROR(iterate(of, body, 0, once));
    const ValueType& type = to_.value(once.scanned[scan][0]).type;
    const auto shape = type.shape.concrete();
    if (!shape || shape->rank() >= limits::kRank) {
      return unimplemented(cat(of.subject, ": expected a scan output of a shape that is known, ",
                               "received ", to_.type_text(type)));
    }
    std::vector<int64_t> sizes{0};
    sizes.insert(sizes.end(), shape->begin(), shape->end());
    return constant(of, Tensor(type.dtype, Shape(std::span<const int64_t>(sizes))));
  }

  // Values of one shape, one behind the other along a new axis.
  Result<ValueId> stacked(const ControlNode& of, const ValueIds& values, int64_t axis) {
    ValueIds parts;
    LEAT_ASSIGN_OR_RETURN(const ValueId axes, axis_list(of, axis));
    for (const ValueId value : values) {
      LEAT_ASSIGN_OR_RETURN(const ValueId part, emit(of, "Unsqueeze", {value, axes}));
      parts.push_back(part);
    }
    if (parts.size() == 1) return parts[0];
    return emit(of, "Concat", std::move(parts), {{"axis", axis}});
  }

  // --- Scan ------------------------------------------------------------------------------------

  // The slices of a value along an axis.
  Result<ValueIds> sliced(const ControlNode& of, ValueId value, int64_t axis) {
    const SymbolicShape& shape = to_.value(value).type.shape;
    const int64_t rank = shape.rank();
    if (axis < -rank || axis >= rank) {
      return invalid_argument(cat(of.subject, ": axis of '", to_.describe(value),
                                  "': expected in [", -rank, ", ", rank - 1, "], received ", axis));
    }
    const Dim length = shape[static_cast<int>(axis < 0 ? axis + rank : axis)];
    if (!length.is_constant() || length.factor < 1) {
      return unimplemented(cat(of.subject,
                               ": expected at least one iteration, and a number of them "
                               "that is known when the graph is loaded; axis ",
                               axis, " of '", to_.describe(value), "' has ", to_.dim_text(length)));
    }
    ValueIds parts{value};
    if (length.factor > 1) {
      if (length.factor > static_cast<int64_t>(limits::kOperands)) {
        return invalid_argument(cat(of.subject, ": expected at most ", limits::kOperands,
                                    " iterations, received ", length.factor));
      }
      LEAT_ASSIGN_OR_RETURN(
          parts, emit_n(of, "Split", {value}, {{"axis", axis}, {"num_outputs", length.factor}},
                        static_cast<int>(length.factor)));
    }
    LEAT_ASSIGN_OR_RETURN(const ValueId axes, axis_list(of, axis));
    for (ValueId& part : parts) {
      LEAT_ASSIGN_OR_RETURN(part, emit(of, "Squeeze", {part, axes}));
    }
    return parts;
  }

  static int64_t entry(const Attrs& attrs, std::string_view name, size_t i) {
    const auto list = attr_ints(attrs, name);
    return i < list.size() ? list[i] : 0;
  }

  Result<ValueIds> scan(const ControlNode& of, const ValueIds& operands) {
    LEAT_ASSIGN_OR_RETURN(const Graph* body, region_of(of, "body"));
    const Attrs& attrs = of.node.attrs;
    const int64_t scans = attr_int(attrs, "num_scan_inputs", 0);
    const auto inputs = static_cast<int64_t>(operands.size());
    if (scans < 1 || scans > inputs) {
      return invalid_argument(
          cat(of.subject, ": num_scan_inputs: expected in [1, ", inputs, "], received ", scans));
    }
    ValueIds state(operands.begin(), operands.end() - scans);
    if (body->outputs().size() < state.size()) {
      return invalid_argument(cat(of.subject, ": expected a body of at least ", state.size(),
                                  " outputs, received ", body->outputs().size()));
    }
    std::vector<ValueIds> slices;
    for (size_t s = 0; s < static_cast<size_t>(scans); ++s) {
      LEAT_ASSIGN_OR_RETURN(ValueIds parts, sliced(of, operands[state.size() + s],
                                                   entry(attrs, "scan_input_axes", s)));
      if (entry(attrs, "scan_input_directions", s) != 0) std::reverse(parts.begin(), parts.end());
      if (!slices.empty() && slices[0].size() != parts.size()) {
        return invalid_argument(cat(of.subject, ": expected scan inputs of one length, received ",
                                    slices[0].size(), " and ", parts.size()));
      }
      slices.push_back(std::move(parts));
    }
    std::vector<ValueIds> scanned(body->outputs().size() - state.size());
    for (size_t t = 0; t < slices[0].size(); ++t) {
      ValueIds given = state;
      for (const ValueIds& slice : slices) given.push_back(slice[t]);
      given.insert(given.end(), of.captures.begin(), of.captures.end());
      LEAT_ASSIGN_OR_RETURN(const ValueIds made,
                            inlined(of, *body, std::move(given), cat(of.label, "/", t), t > 0));
      std::copy_n(made.begin(), state.size(), state.begin());
      for (size_t s = 0; s < scanned.size(); ++s) scanned[s].push_back(made[state.size() + s]);
    }
    for (size_t s = 0; s < scanned.size(); ++s) {
      if (entry(attrs, "scan_output_directions", s) != 0)
        std::reverse(scanned[s].begin(), scanned[s].end());
      LEAT_ASSIGN_OR_RETURN(const ValueId stack,
                            stacked(of, scanned[s], entry(attrs, "scan_output_axes", s)));
      state.push_back(stack);
    }
    return state;
  }

  // The Scan of opset 8: the body sees one entry of the batch at a time.
  Result<ValueIds> batched_scan(const ControlNode& of) {
    std::vector<ValueIds> entries, results;
    for (const ValueId operand : of.inputs) {
      LEAT_ASSIGN_OR_RETURN(ValueIds parts, sliced(of, operand, 0));
      if (!entries.empty() && entries[0].size() != parts.size()) {
        return invalid_argument(cat(of.subject, ": expected operands of one batch, received ",
                                    entries[0].size(), " and ", parts.size()));
      }
      entries.push_back(std::move(parts));
    }
    for (size_t b = 0; !entries.empty() && b < entries[0].size(); ++b) {
      ValueIds operands;
      for (const ValueIds& entry : entries) operands.push_back(entry[b]);
      ControlNode one = of;
      one.is_repeated = of.is_repeated || b > 0;
      LEAT_ASSIGN_OR_RETURN(const ValueIds made, scan(one, operands));
      results.resize(made.size());
      for (size_t i = 0; i < made.size(); ++i) results[i].push_back(made[i]);
    }
    ValueIds batches;
    for (const ValueIds& result : results) {
      LEAT_ASSIGN_OR_RETURN(const ValueId batch, stacked(of, result, 0));
      batches.push_back(batch);
    }
    return batches;
  }

  // --- all -------------------------------------------------------------------------------------

  Status replace(CopiedGraph& graph, NodeId id) {
    const Node& node = graph.from.node(id);
    ControlNode of{node,
                   graph.from.describe_node(id),
                   graph.is_region ? name_in(graph, id) : layer_name(graph.from, id),
                   values_of(graph, node.inputs),
                   {},
                   node.device.empty() ? graph.device : node.device,
                   befores(graph, node),
                   graph.is_repeated};
    const int64_t captures = attr_int(node.attrs, "captures", 0);
    if (captures < 0 || captures > static_cast<int64_t>(of.inputs.size())) {
      return invalid_argument(cat(of.subject, ": captures: expected in [0, ", of.inputs.size(),
                                  "], received ", captures));
    }
    of.captures.assign(of.inputs.end() - captures, of.inputs.end());
    of.inputs.resize(of.inputs.size() - static_cast<size_t>(captures));
    const std::string& op = node.op->name;
    // The first two operands of a Loop are optional.
    const auto first =
        of.inputs.begin() + (op == "Loop" ? std::min<ptrdiff_t>(2, std::ssize(of.inputs)) : 0);
    if (std::count(first, of.inputs.end(), kNone) +
            std::count(of.captures.begin(), of.captures.end(), kNone) >
        0)
      return invalid_argument(cat(of.subject, ": expected all operands, one is absent"));
    LEAT_ASSIGN_OR_RETURN(const ValueIds results, op == "If"       ? branches(of)
                                                  : op == "Loop"   ? loop(of)
                                                  : is_batched(of) ? batched_scan(of)
                                                                   : scan(of, of.inputs));
    return finish(graph, id, of, results);
  }
  static bool is_batched(const ControlNode& of) {
    return attr_int(of.node.attrs, "batched", 0) != 0;
  }

  // The results take the names of the node's outputs. A value that has a name, or is an input, is
  // given on through an Identity.
  Status finish(CopiedGraph& graph, NodeId id, const ControlNode& of, const ValueIds& results) {
    const ValueIds& outputs = of.node.outputs;
    if (outputs.size() > results.size()) {
      return invalid_argument(cat(of.subject, ": expected at most ", results.size(),
                                  " outputs, received ", outputs.size()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNone) continue;
      ValueId value = results[i];
      const std::string& name = graph.from.value_name(outputs[i]);
      const bool is_named = !graph.is_region && !name.empty();
      const bool is_taken = !to_.value_name(value).empty() || to_.value(value).producer == kNone;
      if (is_named && is_taken) {
        LEAT_ASSIGN_OR_RETURN(value, emit(of, "Identity", {value}));
      }
      if (is_named) to_.set_value_name(value, name);
      graph.values[outputs[i]] = value;
      const NodeId producer = to_.value(value).producer;
      if (graph.nodes[id] == kNone && producer != kNone) graph.nodes[id] = producer;
    }
    return {};
  }

  const Graph& from_;
  Graph to_;
  Inference inference_;
  uint32_t next_source_;
  size_t made_ = 0;  // see count()
};

}  // namespace

bool is_control_flow(const OpDef& op) {
  return op.domain.empty() && (op.name == "If" || op.name == "Loop" || op.name == "Scan");
}

bool has_control_flow(const Graph& graph) {
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (is_control_flow(*graph.node(id).op)) return true;
  }
  return false;
}

Result<Graph> expand_control_flow(const Graph& graph) {
  if (!has_control_flow(graph)) return graph;
  return Flattener(graph).run();
}

}  // namespace leat
