// LinearAttention, and its gradient leat.LinearAttentionGrad.
#include "ops/definitions/linear_attention.h"

#include <cmath>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/cost.h"

namespace leat {
namespace {

// The types of the operands, as inference and kernels see them; null where one is absent.
struct AttentionShapes {
  const SymbolicShape* of[6] = {};
  const SymbolicShape& operator[](int i) const { return *of[i]; }
  bool has(int i) const { return of[i] != nullptr; }
};

struct UpdateRule {
  bool gated, delta;
};

// The expectation of the rule that the gates fail, or "".
std::string rule_misfit(const UpdateRule& rule, const std::string& name, const AttentionShapes& x) {
  if (x.has(kDecayInput) != rule.gated)
    return cat("decay: expected ", rule.gated ? "one" : "none", " for the update rule ", name);
  if (x.has(kBetaInput) != rule.delta)
    return cat("beta: expected ", rule.delta ? "one" : "none", " for the update rule ", name);
  return "";
}

// True if `size` may be heads times a size of each head.
bool of_heads(Dim size, int64_t heads) { return !size.is_constant() || size.factor % heads == 0; }

// The expectation that the heads fail, or "".
std::string heads_misfit(int64_t query_heads, int64_t heads, const AttentionShapes& x) {
  if (heads < 1 || query_heads < 1 || query_heads % heads != 0) {
    return cat("q_num_heads and kv_num_heads: expected a multiple of the second one, received ",
               query_heads, " and ", heads);
  }
  for (const int i : {kQueryInput, kKeyInput, kValueInput}) {
    if (x[i].rank() != 3) return "query, key and value: expected [rows,steps,heads * size]";
    if (known_to_differ(x[i][0], x[kQueryInput][0]) || known_to_differ(x[i][1], x[kQueryInput][1]))
      return "query, key and value: expected the same rows and steps";
  }
  if (!of_heads(x[kQueryInput][2], query_heads) || !of_heads(x[kKeyInput][2], heads) ||
      !of_heads(x[kValueInput][2], heads))
    return "query, key and value: expected a last size that the heads divide";
  const bool known = x[kQueryInput][2].is_constant() && x[kKeyInput][2].is_constant();
  if (known && x[kQueryInput][2].factor / query_heads != x[kKeyInput][2].factor / heads)
    return "query and key: expected heads of one size";
  return "";
}

// The expectation that the shapes of the gates fail, or "".
std::string gates_misfit(int64_t heads, const AttentionShapes& x) {
  for (const int i : {kDecayInput, kBetaInput}) {
    if (!x.has(i)) continue;
    const char* name = i == kDecayInput ? "decay" : "beta";
    if (x[i].rank() != 3 || known_to_differ(x[i][0], x[kQueryInput][0]) ||
        known_to_differ(x[i][1], x[kQueryInput][1]))
      return cat(name, ": expected the rows and steps of the query");
    const Dim last = x[i][2];
    if (!last.is_constant() || last.factor == heads) continue;
    const bool fits = i == kBetaInput ? last.factor == 1 : last == x[kKeyInput][2];
    if (!fits)
      return cat(name, ": expected a number for each head, or ",
                 i == kBetaInput ? "one" : "one for each element of the key");
  }
  return "";
}

Dim head_size(Dim all, int64_t heads) {
  return all.is_constant() ? Dim::of(all.factor / heads) : all;
}

// The shape of the state: [rows, heads, size of a key, size of a value].
SymbolicShape state_shape(int64_t heads, const AttentionShapes& x) {
  return {x[kQueryInput][0], Dim::of(heads), head_size(x[kKeyInput][2], heads),
          head_size(x[kValueInput][2], heads)};
}

std::string past_misfit(int64_t heads, const AttentionShapes& x) {
  if (!x.has(kPastInput)) return "";
  const SymbolicShape expected = state_shape(heads, x);
  bool fits = x[kPastInput].rank() == 4;
  for (int d = 0; fits && d < 4; ++d) fits = !known_to_differ(x[kPastInput][d], expected[d]);
  return fits ? "" : "past_state: expected [rows,heads,size of a key,size of a value]";
}

Result<UpdateRule> update_rule(const Attrs& attrs) {
  const std::string name = attr_string(attrs, "update_rule", "gated_delta");
  if (name == "linear") return UpdateRule{false, false};
  if (name == "gated") return UpdateRule{true, false};
  if (name == "delta") return UpdateRule{false, true};
  if (name == "gated_delta") return UpdateRule{true, true};
  return invalid_argument(
      cat("update_rule: expected linear, gated, delta or gated_delta, ", "received '", name, "'"));
}

// Checks the operands of a node.
Status check_linear_attention(const Attrs& attrs, const AttentionShapes& x) {
  LEAT_ASSIGN_OR_RETURN(const UpdateRule rule, update_rule(attrs));
  const int64_t query_heads = attr_int(attrs, "q_num_heads"),
                heads = attr_int(attrs, "kv_num_heads");
  std::string wrong = rule_misfit(rule, attr_string(attrs, "update_rule", "gated_delta"), x);
  if (wrong.empty()) wrong = heads_misfit(query_heads, heads, x);
  if (wrong.empty()) wrong = gates_misfit(heads, x);
  if (wrong.empty()) wrong = past_misfit(heads, x);
  if (wrong.empty()) return {};
  return invalid_argument(wrong);
}

// The shapes of the operands, and their texts for messages.
Result<AttentionShapes> checked_shapes(InferContext& ctx) {
  AttentionShapes x;
  std::vector<std::string> texts;
  for (int i = 0; i < 6; ++i) {
    if (!ctx.has_input(i)) continue;
    x.of[i] = &ctx.shape(i);
    texts.push_back(ctx.text(ctx.shape(i)));
  }
  const Status checked = check_linear_attention(ctx.attrs(), x);
  if (checked.ok()) {
    for (const int i : {kKeyInput, kValueInput}) {
      if (!x[i][2].is_constant())
        return ctx.error("key and value: expected a last size that is known");
    }
    return x;
  }
  return ctx.error(cat(checked.message(), ": the operands are ", join(texts, ", ")));
}

Status infer_linear_attention(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const AttentionShapes x, checked_shapes(ctx));
  const int64_t query_heads = attr_int(ctx.attrs(), "q_num_heads"),
                heads = attr_int(ctx.attrs(), "kv_num_heads");
  ctx.set_tensor(0, ctx.dtype(0),
                 {x[kQueryInput][0], x[kQueryInput][1],
                  Dim::of(x[kValueInput][2].factor / heads * query_heads)});
  ctx.set_tensor(1, ctx.dtype(x.has(kPastInput) ? kPastInput : kQueryInput), state_shape(heads, x));
  return {};
}

// Outputs: the gradients of the first six inputs. If an input is absent, its gradient has no
// elements.
Status infer_linear_attention_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const AttentionShapes x, checked_shapes(ctx));
  const int64_t query_heads = attr_int(ctx.attrs(), "q_num_heads"),
                heads = attr_int(ctx.attrs(), "kv_num_heads");
  const SymbolicShape y{x[kQueryInput][0], x[kQueryInput][1],
                        Dim::of(x[kValueInput][2].factor / heads * query_heads)};
  const SymbolicShape state = state_shape(heads, x);
  for (const int i : {kDyInput, kDStateInput}) {
    const SymbolicShape& expected = i == kDyInput ? y : state;
    if (!ctx.has_input(i)) continue;
    if (ctx.shape(i).rank() != expected.rank() || known_to_differ(ctx.shape(i), expected)) {
      return ctx.error(cat(i == kDyInput ? "dY" : "dstate", ": expected ", ctx.text(expected),
                           ", received ", ctx.text(ctx.shape(i))));
    }
  }
  for (int i = 0; i < 6; ++i) {
    if (!ctx.wants_output(i)) continue;
    if (ctx.has_input(i))
      ctx.set_output(i, ctx.input(i));
    else
      ctx.set_tensor(i, ctx.dtype(kQueryInput), Shape{0});
  }
  return {};
}

Status linear_attention_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs;
  int outputs = 0;
  for (int i = 0; i < 6; ++i) {
    inputs.push_back(ctx.input(i));
    if (ctx.input(i) != kNone) outputs = i + 1;
  }
  inputs.push_back(ctx.grad(0));
  if (ctx.grad(1) != kNone) inputs.push_back(ctx.grad(1));
  Attrs attrs = ctx.node().attrs;
  attrs.erase("chunk_size");
  const auto grads = ctx.emit_n("leat.LinearAttentionGrad", inputs, attrs, outputs);
  for (int i = 0; i < outputs; ++i) {
    if (ctx.input(i) != kNone) ctx.set_grad(i, grads[static_cast<size_t>(i)]);
  }
  return {};
}

std::vector<ShardingRule> shard_linear_attention(const std::vector<OperandType>& inputs,
                                                 const std::vector<OperandType>& outputs,
                                                 const Attrs&) {
  return {{std::vector<Spread>(inputs.size(), Spread::on(0)),
           std::vector<Spread>(outputs.size(), Spread::on(0))}};
}

Op with_linear_attention_inputs(Op op) {
  return op.input("query", "T")
      .input("key", "T")
      .input("value", "T")
      .optional_input("past_state", "S")
      .optional_input("decay", "T")
      .optional_input("beta", "T")
      .type("T", kFloats)
      .type("S", kFloats)
      .attr_required("kv_num_heads", "int")
      .attr_required("q_num_heads", "int")
      .attr("scale", 0.0)
      .attr("update_rule", std::string("gated_delta"))
      .sharding(shard_linear_attention);
}

// Of each step: the state grows by a product of key and value, and is multiplied by the query; with
// the delta rule also by the key.
double linear_attention_flops(const OpTypes& types) {
  const auto rule = update_rule(*types.attrs);
  const auto heads = static_cast<double>(attr_int(*types.attrs, "kv_num_heads"));
  const double value_size = static_cast<double>(types.inputs[kValueInput].shape[2]) / heads;
  const double keys = rule.ok() && rule->delta ? 2 : 1;
  return 2 * value_size *
         (keys * elements_of(types.inputs[kKeyInput]) + elements_of(types.inputs[kQueryInput]));
}
// The gradient computes the states again, and has two products for each of theirs.
double linear_attention_grad_flops(const OpTypes& types) {
  return 3 * linear_attention_flops(types);
}

}  // namespace

Result<LinearAttentionSpec> linear_attention_spec(const KernelSetup& setup) {
  SymbolicShape shapes[6];
  AttentionShapes x;
  for (int i = 0; i < 6; ++i) {
    if (!setup.types.has_input(i)) continue;
    shapes[i] = setup.input(i).shape;
    x.of[i] = &shapes[i];
  }
  const Status checked = check_linear_attention(setup.attrs(), x);
  if (!checked.ok()) return invalid_argument(cat(setup.subject, ": ", checked.message()));
  LEAT_ASSIGN_OR_RETURN(const UpdateRule rule, update_rule(setup.attrs()));
  LinearAttentionSpec spec;
  spec.gated = rule.gated;
  spec.delta = rule.delta;
  spec.query_heads = attr_int(setup.attrs(), "q_num_heads");
  spec.heads = attr_int(setup.attrs(), "kv_num_heads");
  spec.rows = shapes[kQueryInput][0].factor;
  spec.steps = shapes[kQueryInput][1].factor;
  spec.key_size = shapes[kKeyInput][2].factor / spec.heads;
  spec.value_size = shapes[kValueInput][2].factor / spec.heads;
  if (rule.gated) spec.decays = shapes[kDecayInput][2].factor / spec.heads;
  if (rule.delta) spec.betas = shapes[kBetaInput][2].factor;
  const double given = attr_float(setup.attrs(), "scale");
  spec.scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(spec.key_size));
  return spec;
}

void register_linear_attention_ops(Catalogue& catalogue) {
  catalogue.add(with_linear_attention_inputs(Op("LinearAttention", 27))
                    .output("output", "T")
                    .output("present_state", "S")
                    .attr("chunk_size", int64_t{64})  // the kernel goes step by step
                    .infer(infer_linear_attention)
                    .gradient(linear_attention_gradient)
                    .flops(linear_attention_flops));
  catalogue.add(with_linear_attention_inputs(Op("leat.LinearAttentionGrad"))
                    .optional_input("dY", "T")
                    .optional_input("dstate", "S")
                    .output("dquery", "T")
                    .output("dkey", "T")
                    .output("dvalue", "T")
                    .optional_output("dpast_state", "S")
                    .optional_output("ddecay", "T")
                    .optional_output("dbeta", "T")
                    .infer(infer_linear_attention_grad)
                    .flops(linear_attention_grad_flops));
}

}  // namespace leat
