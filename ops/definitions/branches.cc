// ONNX's If, Loop and Scan, which are expanded when a graph is loaded, and the ops that they become
// where only a step knows the condition (see branches.h).
#include "ops/definitions/branches.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

Status check_condition(InferContext& ctx, int i) {
  const auto shape = ctx.shape(i).concrete();
  if (shape && shape->elements() == 1) return {};
  return ctx.error(cat("condition: expected one element, received ", ctx.text(ctx.shape(i))));
}

// Both values must have one shape. A symbolic size may turn out to be the other's.
Status infer_merge(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_condition(ctx, 0));
  const SymbolicShape &a = ctx.shape(1), &b = ctx.shape(2);
  bool fits = a.rank() == b.rank();
  SymbolicShape shape = a;
  for (int i = 0; fits && i < a.rank(); ++i) {
    fits = !known_to_differ(a[i], b[i]);
    if (b[i].is_constant()) shape.set(i, b[i]);
  }
  if (!fits) {
    return ctx.error(cat("expected values of one shape from both branches, received ", ctx.text(a),
                         " and ", ctx.text(b)));
  }
  ctx.set_tensor(0, ctx.dtype(1), shape);
  return {};
}

// Mask and Enter.
Status infer_of_branch(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_condition(ctx, 1));
  return infer_same_as_first(ctx);
}

Attrs of_branch(int64_t branch) { return {{"branch", branch}}; }

Status merge_gradient(GradientContext& ctx) {
  for (int i : {1, 2}) {
    if (!ctx.needs(i)) continue;
    ctx.set_grad(i, ctx.emit("leat.Mask", {ctx.grad(0), ctx.input(0)}, of_branch(i == 1)));
  }
  return {};
}

Status mask_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("leat.Mask", {ctx.grad(0), ctx.input(1)},
                           of_branch(attr_int(ctx.node().attrs, "branch", 1))));
  return {};
}

Status loop_end_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.grad(0));
  return {};
}

Status infer_control_flow(InferContext& ctx) {
  return ctx.error("expected a graph whose regions are expanded (expand_layers)");
}

void add_control_flow(Catalogue& catalogue) {
  catalogue.add(Op("If", 25)
                    .input("cond", "bool")
                    .variadic_output("outputs", "V", true)
                    .attr_required("then_branch", "graph")
                    .attr_required("else_branch", "graph")
                    .type("V", kStoredTypes)
                    .infer(infer_control_flow));
  catalogue.add(Op("Loop", 25)
                    .optional_input("M", "int64")
                    .optional_input("cond", "bool")
                    .variadic_input("v_initial", "V", true)
                    .variadic_output("v_final_and_scan_outputs", "V", true)
                    .attr_required("body", "graph")
                    .attr_optional("bound", "int")  // Leat's own, for what a step decides
                    .type("V", kStoredTypes)
                    .infer(infer_control_flow));
  catalogue.add(Op("Scan", 25)
                    .variadic_input("initial_state_and_scan_inputs", "V", true)
                    .variadic_output("final_state_and_scan_outputs", "V", true)
                    .attr_required("body", "graph")
                    .attr_required("num_scan_inputs", "int")
                    .attr_optional("scan_input_axes", "ints")
                    .attr_optional("scan_input_directions", "ints")
                    .attr_optional("scan_output_axes", "ints")
                    .attr_optional("scan_output_directions", "ints")
                    .attr("batched", int64_t{0})  // the form of opset 8, which the importer sets
                    .type("V", kStoredTypes)
                    .infer(infer_control_flow));
}

void add_maps(Catalogue& catalogue) {
  // Each shard has an equal part of the items, which lie along the first axis of all xs. The body
  // takes one item of each x. The y are its results for all items, reduced or side by side, and
  // the same on all shards.
  catalogue.add(Op("leat.MapReduce")
                    .variadic_input("xs", "V", true)
                    .variadic_output("ys", "V", true)
                    .attr_required("body", "graph")
                    .attr("op", std::string("sum"))
                    .attr("replicas", int64_t{1})
                    .type("V", kStoredTypes)
                    .infer(infer_control_flow));
  catalogue.add(Op("leat.MapGather")
                    .variadic_input("xs", "V", true)
                    .variadic_output("ys", "V", true)
                    .attr_required("body", "graph")
                    .attr("replicas", int64_t{1})
                    .type("V", kStoredTypes)
                    .infer(infer_control_flow));
}

void add_borders(Catalogue& catalogue) {
  catalogue.add(Op("leat.Merge")
                    .input("condition", "bool")
                    .input("of_then", "T")
                    .input("of_else", "T")
                    .output("Y", "T")
                    .type("T", kStoredTypes)
                    .in_place(0, 1)
                    .in_place(0, 2)
                    .infer(infer_merge)
                    .gradient(merge_gradient));
  catalogue.add(Op("leat.Mask")
                    .input("X", "T")
                    .input("condition", "bool")
                    .output("Y", "T")
                    .attr("branch", int64_t{1})
                    .type("T", kStoredTypes)
                    .in_place(0, 0)
                    .infer(infer_of_branch)
                    .gradient(mask_gradient));
  catalogue.add(Op("leat.Enter")
                    .input("X", "T")
                    .input("condition", "bool")
                    .output("Y", "T")
                    .attr("branch", int64_t{1})
                    .type("T", kStoredTypes)
                    .view()
                    .infer(infer_of_branch)
                    .gradient(mask_gradient));
  // Y is X. The step fails if the loop would go on.
  catalogue.add(Op("leat.LoopEnd")
                    .input("X", "T")
                    .input("running", "bool")
                    .output("Y", "T")
                    .attr_required("bound", "int")
                    .type("T", kStoredTypes)
                    .in_place(0, 0)
                    .infer(infer_of_branch)
                    .gradient(loop_end_gradient));
}

// The view that the rule of an op gets of its conditional form: all inputs but the condition.
class InferBehindCondition final : public InferContext {
 public:
  explicit InferBehindCondition(InferContext& all) : all_(all) {}
  int inputs() const override { return all_.inputs() - 1; }
  int outputs() const override { return all_.outputs(); }
  bool has_input(int i) const override { return all_.has_input(i + 1); }
  bool wants_output(int i) const override { return all_.wants_output(i); }
  const ValueType& input(int i) const override { return all_.input(i + 1); }
  const Tensor* constant(int i) const override { return all_.constant(i + 1); }
  const SizeValues& sizes(int i) const override { return all_.sizes(i + 1); }
  const Attrs& attrs() const override { return all_.attrs(); }
  void set_output(int i, ValueType type) override { all_.set_output(i, std::move(type)); }
  void set_constant(int i, Tensor value) override { all_.set_constant(i, std::move(value)); }
  void set_sizes(int i, SizeValues values) override { all_.set_sizes(i, std::move(values)); }
  SymbolId fresh_symbol() override { return all_.fresh_symbol(); }
  std::string text(const SymbolicShape& shape) const override { return all_.text(shape); }
  Status error(std::string_view message) const override { return all_.error(message); }

 private:
  InferContext& all_;
};

}  // namespace

bool may_be_conditional(const OpDef& op) {
  const auto is_tensor = [](const Operand& operand) {
    return operand.type != "resource" && operand.type != "rows" && operand.type != "token" &&
           operand.type != "any";
  };
  return op.domain != kWhen && !op.stateful && !op.make_resource && !op.view && op.writes.empty() &&
         op.reads.empty() && !op.inputs.empty() && !op.outputs.empty() && op.infer &&
         std::all_of(op.inputs.begin(), op.inputs.end(), is_tensor) &&
         std::all_of(op.outputs.begin(), op.outputs.end(), is_tensor);
}

OpDef conditional(const OpDef& op) {
  OpDef made;
  made.domain = std::string(kWhen);
  made.name = op.full_name();
  made.since = op.since;
  made.inputs = op.inputs;
  made.inputs.insert(made.inputs.begin(), Operand{"condition", "bool"});
  made.outputs = op.outputs;
  made.attributes = op.attributes;
  made.types = op.types;
  made.random = op.random;
  made.per_shard = op.per_shard;
  for (const int input : op.picks) made.picks.push_back(input + 1);
  for (const auto& [output, input] : op.in_place) made.in_place.emplace_back(output, input + 1);
  made.infer = [&op](InferContext& ctx) -> Status {
    LEAT_RETURN_IF_ERROR(check_condition(ctx, 0));
    InferBehindCondition behind(ctx);
    return op.infer(behind);
  };
  if (op.flops) {
    made.flops = [&op](const OpTypes& all) {
      OpTypes behind = all;
      behind.inputs.erase(behind.inputs.begin());
      return op.flops(behind);
    };
  }
  return made;
}

void register_conditional_ops(Catalogue& catalogue) {
  for (const OpDef* op : catalogue.all()) {
    if (may_be_conditional(*op)) catalogue.add(conditional(*op));
  }
}

void register_branch_ops(Catalogue& catalogue) {
  add_control_flow(catalogue);
  add_maps(catalogue);
  add_borders(catalogue);
}

}  // namespace leat
