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
#include "ops/layers/map_copier.h"

namespace leat {
namespace {

// The running condition of a Loop: true, or a value that only a step knows.
using Running = std::optional<ValueId>;

class ControlFlow final : public MapCopier {
 public:
  using MapCopier::MapCopier;

 private:
  // A branch around the nodes that are made: its condition, and the value that takes it.
  struct Enclosing {
    ValueId condition;
    bool branch;
  };
  // inlined(), within a branch.
  Result<ValueIds> inlined_in(Enclosing branch, const ControlNode& of, const Graph& region,
                              ValueIds operands, std::string label, bool is_repeated) {
    enclosing_.push_back(branch);
    auto made = inlined(of, region, std::move(operands), std::move(label), is_repeated);
    enclosing_.pop_back();
    return made;
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
      const ValueType& type = to().value(operands[i]).type;
      if (!used || type.kind != ValueKind::tensor || !is_float(type.dtype) ||
          known_value(operands[i])) {
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
    LEAT_ASSIGN_OR_RETURN(const ValueIds a,
                          inlined_in({condition, true}, of, *then_branch, std::move(operands),
                                     cat(of.label, "/then"), false));
    LEAT_ASSIGN_OR_RETURN(operands, entered(of, *else_branch, of.captures, condition, false));
    LEAT_ASSIGN_OR_RETURN(const ValueIds b,
                          inlined_in({condition, false}, of, *else_branch, std::move(operands),
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

  // How long a Loop may go on.
  struct Trips {
    std::optional<int64_t> most;  // the iterations to expand
    ValueId count = kNone;        // M, if a step computes it
    bool bounded = false;         // `most` is the attribute `bound`: a step may want to go on
  };

  Result<Trips> trips_of(const ControlNode& of) const {
    Trips trips;
    if (has_attr(of.node.attrs, "bound")) {
      trips.most = attr_int(of.node.attrs, "bound", 0);
      trips.bounded = true;
      if (*trips.most < 1)
        return invalid_argument(
            cat(of.subject, ": bound: expected at least 1, received ", *trips.most));
    }
    if (of.inputs.empty() || of.inputs[0] == kNone) return trips;
    const Tensor* count = known_value(of.inputs[0]);
    if (count != nullptr && count->elements() == 1) {
      const int64_t known_count = count->int_at(0);
      if (!trips.most || known_count <= *trips.most) trips = {known_count};
      return trips;
    }
    if (!trips.bounded) {
      return unimplemented(
          cat(of.subject, ": expected a trip count that is known when the graph is loaded, '",
              to().describe(of.inputs[0]),
              "' is computed in the step; give M as a constant bound and end the "
              "loop earlier by its condition, or set the attribute bound (leat.bound in "
              "the metadata of an ONNX file)"));
    }
    trips.count = of.inputs[0];
    return trips;
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
    LEAT_ASSIGN_OR_RETURN(const Trips trips, trips_of(of));
    LoopState state;
    if (of.inputs.size() > 2) state.carried.assign(of.inputs.begin() + 2, of.inputs.end());
    const size_t carried = state.carried.size();
    if (body->outputs().size() < carried + 1) {
      return invalid_argument(cat(of.subject, ": expected a body of at least ", carried + 1,
                                  " outputs, received ", body->outputs().size()));
    }
    state.scanned.resize(body->outputs().size() - carried - 1);
    LEAT_RETURN_IF_ERROR(begin(of, trips, state));
    for (int64_t i = 0; !state.ended && (!trips.most || i < *trips.most); ++i) {
      if (state.running && !trips.most) {
        return unimplemented(cat(of.subject,
                                 ": expected a Loop with a bound, it ends by a condition that is "
                                 "computed in the step; give M as a constant, or set the "
                                 "attribute bound (leat.bound in the metadata of an ONNX file)"));
      }
      LEAT_RETURN_IF_ERROR(iterate(of, *body, i, trips, state));
    }
    return results_of_loop(of, *body, trips, state);
  }

  // The states, and the scan outputs behind them.
  Result<ValueIds> results_of_loop(const ControlNode& of, const Graph& body, const Trips& trips,
                                   const LoopState& state) {
    ValueIds results = state.carried;
    for (size_t s = 0; s < state.scanned.size(); ++s) {
      if (state.scanned[s].empty()) {
        LEAT_ASSIGN_OR_RETURN(const ValueId none, no_iterations(of, body, s));
        results.push_back(none);
        continue;
      }
      LEAT_ASSIGN_OR_RETURN(const ValueId stack, stacked(of, state.scanned[s], 0));
      results.push_back(stack);
    }
    if (!trips.bounded || state.ended) return results;
    if (!state.running) {
      return invalid_argument(cat(of.subject, ": bound: expected a Loop that may end within ",
                                  *trips.most, " iterations, this one goes on"));
    }
    LEAT_ASSIGN_OR_RETURN(const ValueId goes_on, within_taken_branches(of, *state.running));
    for (ValueId& result : results) {
      LEAT_ASSIGN_OR_RETURN(result,
                            emit(of, "leat.LoopEnd", {result, goes_on}, {{"bound", *trips.most}}));
    }
    return results;
  }

  // True if `condition` holds and the step takes all branches around it: an accelerator computes
  // those that the step does not take, too, and their loops must not fail it.
  Result<ValueId> within_taken_branches(const ControlNode& of, ValueId condition) {
    for (const Enclosing& around : enclosing_) {
      ValueId taken = around.condition;
      if (!around.branch) {
        LEAT_ASSIGN_OR_RETURN(taken, emit(of, "Not", {taken}));
      }
      LEAT_ASSIGN_OR_RETURN(condition, emit(of, "And", {condition, taken}));
    }
    return condition;
  }

  // Sets the condition of the first iteration.
  Status begin(const ControlNode& of, const Trips& trips, LoopState& state) {
    if (of.inputs.size() > 1 && of.inputs[1] != kNone)
      return go_on_if(of, of.inputs[1], 0, trips, state);
    if (trips.count == kNone) return {};
    LEAT_ASSIGN_OR_RETURN(const ValueId yes, constant(of, Tensor::scalar<bool>(true)));
    return go_on_if(of, yes, 0, trips, state);
  }

  // Sets the running condition to a value: the loop goes on with iteration `next` if it holds, and
  // if `next` is below the M that a step computes.
  Status go_on_if(const ControlNode& of, ValueId condition, int64_t next, const Trips& trips,
                  LoopState& state) {
    const auto goes_on = known(condition);
    if (goes_on && !*goes_on) {
      state.ended = true;
      return {};
    }
    if (trips.count != kNone) {
      LEAT_ASSIGN_OR_RETURN(const ValueId number, constant(of, Tensor::scalar<int64_t>(next)));
      LEAT_ASSIGN_OR_RETURN(const ValueId below, emit(of, "Less", {number, trips.count}));
      if (goes_on) {
        condition = below;
      } else {
        LEAT_ASSIGN_OR_RETURN(condition, emit(of, "And", {condition, below}));
      }
    } else if (goes_on) {
      // A loop that may have ended before goes on under the condition that it had.
      return {};
    }
    if (!state.scanned.empty() && !has_attr(of.node.attrs, "bound")) {
      return unimplemented(cat(of.subject,
                               ": expected a Loop with scan outputs to make a number of "
                               "iterations that is known when the graph is loaded, its condition "
                               "is computed in the step; with the attribute bound they have as "
                               "many entries, zeros behind the last iteration"));
    }
    if (!state.running) {
      state.running = condition;
      return {};
    }
    const auto shape = to().value(condition).type.shape.concrete();
    if (!shape || shape->elements() != 1) {
      return invalid_argument(cat(of.subject, ": condition: expected one element, received ",
                                  to().type_text(to().value(condition).type)));
    }
    Tensor never(DType::boolean, *shape);
    never.set(0, 0);
    LEAT_ASSIGN_OR_RETURN(const ValueId no, constant(of, std::move(never)));
    LEAT_ASSIGN_OR_RETURN(const ValueId merge, merged(of, *state.running, condition, no));
    state.running = merge;
    return {};
  }

  // Only a Loop with the attribute `bound` reads the condition that its last iteration computes.
  Status iterate(const ControlNode& of, const Graph& body, int64_t i, const Trips& trips,
                 LoopState& state) {
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
    auto body_results = running
                            ? inlined_in({*running, true}, of, body, std::move(operands),
                                         cat(of.label, "/", i), i > 0)
                            : inlined(of, body, std::move(operands), cat(of.label, "/", i), i > 0);
    LEAT_ASSIGN_OR_RETURN(const ValueIds made, std::move(body_results));
    for (size_t c = 0; c < state.carried.size(); ++c) {
      const ValueId before = state.carried[c];
      state.carried[c] = made[c + 1];
      if (!running) continue;
      LEAT_ASSIGN_OR_RETURN(state.carried[c], merged(of, *running, made[c + 1], before));
    }
    for (size_t s = 0; s < state.scanned.size(); ++s) {
      ValueId entry = made[s + 1 + state.carried.size()];
      if (running) {
        LEAT_ASSIGN_OR_RETURN(entry,
                              emit(of, "leat.Mask", {entry, *running}, {{"branch", int64_t{1}}}));
      }
      state.scanned[s].push_back(entry);
    }
    const bool last = trips.most && i + 1 == *trips.most;
    return last && !trips.bounded ? Status() : go_on_if(of, made[0], i + 1, trips, state);
  }

  // The scan output of a Loop without iterations: its body tells the type.
  Result<ValueId> no_iterations(const ControlNode& of, const Graph& body, size_t scan) {
    LoopState once;
    if (of.inputs.size() > 2) once.carried.assign(of.inputs.begin() + 2, of.inputs.end());
    once.scanned.resize(body.outputs().size() - once.carried.size() - 1);
    LEAT_RETURN_IF_ERROR(iterate(of, body, 0, Trips{1}, once));
    const ValueType& type = to().value(once.scanned[scan][0]).type;
    const auto shape = type.shape.concrete();
    if (!shape || shape->rank() >= limits::kRank) {
      return unimplemented(cat(of.subject, ": expected a scan output of a shape that is known, ",
                               "received ", to().type_text(type)));
    }
    std::vector<int64_t> sizes{0};
    sizes.insert(sizes.end(), shape->begin(), shape->end());
    return constant(of, Tensor(type.dtype, Shape(std::span<const int64_t>(sizes))));
  }

  // --- Scan ------------------------------------------------------------------------------------

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

  Result<ValueIds> results_of(const ControlNode& of) override {
    const std::string& op = of.node.op->name;
    if (op == "If") return branches(of);
    if (op == "Loop") return loop(of);
    if (of.node.op->domain == "leat") return mapped(of);
    return attr_int(of.node.attrs, "batched", 0) != 0 ? batched_scan(of) : scan(of, of.inputs);
  }

  std::vector<Enclosing> enclosing_;  // the outermost first
};

}  // namespace

bool is_control_flow(const OpDef& op) {
  if (op.domain == "leat") return op.name == "MapReduce" || op.name == "MapGather";
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
  return ControlFlow(graph).run();
}

}  // namespace leat
