#include "ops/definitions/recurrent.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/cost.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The operands of leat.Recurrent and of leat.RecurrentGrad.
enum Input : int { kX, kR, kH0, kC0, kExtra, kLengths };
enum Output : int { kY, kLastH, kLastC, kGates, kStates };
enum GradInput : int {
  kGradR,
  kGradY,
  kGradGates,
  kGradStates,
  kGradH0,
  kGradC0,
  kGradExtra,
  kGradLengths,
  kGradDy,
  kGradDh,
  kGradDc,
};
enum GradOutput : int {
  kGradX,
  kGradProducts,
  kGradFirstH,
  kGradFirstC,
  kGradBeforeH,
  kGradBeforeC
};

template <typename T>
std::vector<T> list_of(const Attrs& attrs, std::string_view name) {
  const auto found = attrs.find(name);
  if (found == attrs.end()) return {};
  const auto* list = std::get_if<std::vector<T>>(&found->second);
  return list ? *list : std::vector<T>();
}

// The sizes of a sequence [T,N,gates * H].
struct Sizes {
  Dim steps, rows, state;
};

Status expect_shape(InferContext& ctx, int i, std::string_view name, const SymbolicShape& shape) {
  if (!ctx.has_input(i)) return {};
  bool fits = ctx.shape(i).rank() == shape.rank();
  for (int d = 0; fits && d < shape.rank(); ++d)
    fits = !known_to_differ(SymbolicShape{ctx.shape(i)[d]}, SymbolicShape{shape[d]});
  if (fits) return {};
  return ctx.error(
      cat(name, ": expected ", ctx.text(shape), ", received ", ctx.text(ctx.shape(i))));
}

Result<Sizes> sequence_sizes(InferContext& ctx, const RecurrentSpec& spec, const SymbolicShape& x,
                             const SymbolicShape& r) {
  if (x.rank() != 3 || r.rank() != 2) {
    return ctx.error(
        cat("expected x of rank 3 and r of rank 2, received ", ctx.text(x), " and ", ctx.text(r)));
  }
  const Sizes sizes{x[0], x[1], r[0]};
  const auto columns = multiply(sizes.state, Dim::of(spec.gates()));
  const bool fits = columns && !known_to_differ(SymbolicShape{r[1]}, SymbolicShape{*columns}) &&
                    !known_to_differ(SymbolicShape{x[2]}, SymbolicShape{*columns});
  if (fits) return sizes;
  return ctx.error(cat("expected x of [T,N,", spec.gates(), "H] and r of [H,", spec.gates(),
                       "H], received ", ctx.text(x), " and ", ctx.text(r)));
}

// Peepholes of an LSTM, the bias of a GRU's last gate that is inside of the reset.
SymbolicShape extra_shape(const RecurrentSpec& spec, Dim state) {
  return {spec.cell == Cell::lstm ? multiply(state, Dim::of(3)).value_or(state) : state};
}

Result<RecurrentSpec> spec_of(InferContext& ctx) {
  auto spec = recurrent_spec(ctx.attrs());
  if (!spec.ok()) return ctx.error(spec.status().message());
  return spec;
}

Status infer_recurrent(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const RecurrentSpec spec, spec_of(ctx));
  LEAT_ASSIGN_OR_RETURN(const Sizes s, sequence_sizes(ctx, spec, ctx.shape(kX), ctx.shape(kR)));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kH0, "initial_h", {s.rows, s.state}));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kC0, "initial_c", {s.rows, s.state}));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kExtra, "extra", extra_shape(spec, s.state)));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kLengths, "lengths", {s.rows}));
  const DType dtype = ctx.dtype(kX);
  ctx.set_tensor(kY, dtype, {s.steps, s.rows, s.state});
  ctx.set_tensor(kLastH, dtype, {s.rows, s.state});
  ctx.set_tensor(kLastC, dtype, {s.rows, s.state});
  ctx.set_tensor(kGates, dtype, ctx.shape(kX));
  ctx.set_tensor(kStates, dtype, {s.steps, s.rows, s.state});
  return {};
}

Status infer_recurrent_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const RecurrentSpec spec, spec_of(ctx));
  const SymbolicShape y = ctx.shape(kGradY);
  if (y.rank() != 3) return ctx.error(cat("y: expected rank 3, received ", ctx.text(y)));
  const auto columns = multiply(y[2], Dim::of(spec.gates()));
  const SymbolicShape x{y[0], y[1], columns ? *columns : Dim::of_symbol(ctx.fresh_symbol())};
  LEAT_RETURN_IF_ERROR(sequence_sizes(ctx, spec, x, ctx.shape(kGradR)).status());
  if (spec.cell != Cell::rnn && !(ctx.has_input(kGradGates) && ctx.has_input(kGradStates)))
    return ctx.error("expected the gates and states of the forward pass, they are missing");
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kGradGates, "gates", x));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kGradStates, "states", y));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kGradDy, "dy", y));
  for (const int i : {kGradH0, kGradC0, kGradDh, kGradDc})
    LEAT_RETURN_IF_ERROR(expect_shape(ctx, i, "a state", {y[1], y[2]}));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kGradExtra, "extra", extra_shape(spec, y[2])));
  LEAT_RETURN_IF_ERROR(expect_shape(ctx, kGradLengths, "lengths", {y[1]}));
  const DType dtype = ctx.dtype(kGradY);
  ctx.set_tensor(kGradX, dtype, x);
  ctx.set_tensor(kGradProducts, dtype, x);
  ctx.set_tensor(kGradFirstH, dtype, {y[1], y[2]});
  ctx.set_tensor(kGradFirstC, dtype, {y[1], y[2]});
  ctx.set_tensor(kGradBeforeH, dtype, y);
  ctx.set_tensor(kGradBeforeC, dtype, y);
  return {};
}

// --- The gradient ------------------------------------------------------------------------------

// Builds the gradients of the weights, which are products over all steps and rows.
class WeightGradients {
 public:
  WeightGradients(GradientContext& ctx, Dim state) : ctx_(ctx), state_(state) {}

  // [T,N,columns] as [T*N,columns].
  ValueId flat(ValueId value) { return ctx_.emit("Flatten", {value}, {{"axis", int64_t{2}}}); }
  // The sum over steps and rows of the outer products: [H,columns].
  ValueId product(ValueId states, ValueId gates) {
    return ctx_.emit("Gemm", {flat(states), flat(gates)}, {{"transA", int64_t{1}}});
  }
  // Columns [from, to) of gates, in sizes of the state.
  ValueId part(ValueId gates, int64_t from, int64_t to) {
    const auto ints = [&](int64_t v) { return ctx_.constant(Tensor::of<int64_t>({1}, {v})); };
    return ctx_.emit("Slice",
                     {gates, ints(from * state_.factor), ints(to * state_.factor), ints(2)});
  }
  // The sum over steps and rows: [columns].
  ValueId sum(ValueId value) {
    const ValueId axes = ctx_.constant(Tensor::of<int64_t>({2}, {0, 1}));
    return ctx_.emit("ReduceSum", {value, axes}, {{"keepdims", int64_t{0}}});
  }

 private:
  GradientContext& ctx_;
  const Dim state_;
};

Status recurrent_gradient(GradientContext& ctx) {
  const auto spec = recurrent_spec(ctx.node().attrs);
  if (!spec.ok()) return ctx.error(spec.status().message());
  if (spec->clip != 0) return ctx.error("has no gradient with clip");
  const Dim state = ctx.type(ctx.input(kR)).shape[0];
  if (!state.is_constant()) return ctx.error("its gradient needs to know the size of the state");
  const bool has_gates = spec->cell != Cell::rnn;
  std::vector<ValueId> inputs = {ctx.input(kR),
                                 ctx.output(kY),
                                 has_gates ? ctx.optional_output(kGates) : kNone,
                                 has_gates ? ctx.optional_output(kStates) : kNone,
                                 ctx.input(kH0),
                                 ctx.input(kC0),
                                 ctx.input(kExtra),
                                 ctx.input(kLengths),
                                 ctx.grad(kY),
                                 ctx.grad(kLastH),
                                 ctx.grad(kLastC)};
  const auto grads = ctx.emit_n("leat.RecurrentGrad", inputs, ctx.node().attrs, 6);
  WeightGradients weights(ctx, state);
  ctx.set_grad(kX, grads[kGradX]);
  if (ctx.needs(kH0)) ctx.set_grad(kH0, grads[kGradFirstH]);
  if (ctx.needs(kC0)) ctx.set_grad(kC0, grads[kGradFirstC]);
  const bool resets_first = spec->cell == Cell::gru && !spec->linear_before_reset;
  if (ctx.needs(kR) && resets_first) {
    // The last gate's weights met the state after the reset, which is what the states are.
    const ValueId first = weights.product(grads[kGradBeforeH], weights.part(grads[kGradX], 0, 2));
    const ValueId last =
        weights.product(ctx.optional_output(kStates), weights.part(grads[kGradX], 2, 3));
    ctx.set_grad(kR, ctx.emit("Concat", {first, last}, {{"axis", int64_t{1}}}));
  } else if (ctx.needs(kR)) {
    ctx.set_grad(kR, weights.product(grads[kGradBeforeH], grads[kGradProducts]));
  }
  if (!ctx.needs(kExtra)) return {};
  if (spec->cell == Cell::gru) {
    ctx.set_grad(kExtra, weights.sum(weights.part(grads[kGradProducts], 2, 3)));
    return {};
  }
  // Peepholes, in the order of the gates i, o, f.
  std::vector<ValueId> parts;
  for (int64_t gate = 0; gate < 3; ++gate) {
    const ValueId cell = gate == 1 ? ctx.optional_output(kStates) : grads[kGradBeforeC];
    parts.push_back(
        weights.sum(ctx.emit("Mul", {weights.part(grads[kGradX], gate, gate + 1), cell})));
  }
  ctx.set_grad(kExtra, ctx.emit("Concat", parts, {{"axis", int64_t{0}}}));
  return {};
}

// Rows of the batch are independent.
std::vector<ShardingRule> shard_recurrent(const std::vector<OperandType>& inputs,
                                          const std::vector<OperandType>& outputs, const Attrs&) {
  const Spread step = Spread::on(1), row = Spread::on(0);
  ShardingRule rule{{step, Spread(), row, row, Spread(), row}, {step, row, row, step, step}};
  rule.inputs.resize(inputs.size());
  rule.outputs.resize(outputs.size());
  return {rule};
}

Op with_attributes(Op op) {
  return op.attr_required("cell", "string")
      .attr("reverse", int64_t{0})
      .attr("input_forget", int64_t{0})
      .attr("linear_before_reset", int64_t{0})
      .attr("clip", 0.0)
      .attr_optional("activations", "strings")
      .attr_optional("activation_alpha", "floats")
      .attr_optional("activation_beta", "floats")
      .type("T", kFloats);
}

// Each element of the states of all steps, times R's columns: forward the product of the state, in
// the gradient that of the gates' gradients. `y` are the states, and `r` is R.
double state_flops(const OperandType& y, const OperandType& r) {
  return 2 * elements_of(y) * static_cast<double>(r.shape[1]);
}
double recurrent_flops(const OpTypes& types) {
  return state_flops(types.outputs[0], types.inputs[1]);
}
double recurrent_grad_flops(const OpTypes& types) {
  return state_flops(types.inputs[1], types.inputs[0]);
}

}  // namespace

std::optional<CellActivation> cell_activation(std::string_view name, std::optional<double> alpha,
                                              std::optional<double> beta) {
  struct Known {
    std::string_view name;
    CellActivation::Kind kind;
    double alpha, beta;
  };
  using A = CellActivation;
  static constexpr Known kKnown[] = {
      {"sigmoid", A::sigmoid, 0, 0},
      {"tanh", A::tanh, 0, 0},
      {"relu", A::relu, 0, 0},
      {"affine", A::affine, 1, 0},
      {"leakyrelu", A::leaky_relu, 0.01, 0},
      {"thresholdedrelu", A::thresholded_relu, 1, 0},
      {"scaledtanh", A::scaled_tanh, 1, 1},
      {"hardsigmoid", A::hard_sigmoid, 0.2, 0.5},
      {"elu", A::elu, 1, 0},
      {"softsign", A::softsign, 0, 0},
      {"softplus", A::softplus, 0, 0},
  };
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Known& known : kKnown) {
    if (known.name == lower)
      return CellActivation{known.kind, alpha.value_or(known.alpha), beta.value_or(known.beta)};
  }
  return std::nullopt;
}

// The lists of alpha and beta have entries for the activations that have such a number, in order.
Result<RecurrentSpec> recurrent_spec(const Attrs& attrs) {
  RecurrentSpec spec;
  const std::string cell = attr_string(attrs, "cell");
  if (cell != "lstm" && cell != "gru" && cell != "rnn")
    return invalid_argument(cat("cell: expected lstm, gru or rnn, received '", cell, "'"));
  spec.cell = cell == "lstm" ? Cell::lstm : cell == "gru" ? Cell::gru : Cell::rnn;
  spec.reverse = attr_int(attrs, "reverse") != 0;
  spec.input_forget = attr_int(attrs, "input_forget") != 0;
  spec.linear_before_reset = attr_int(attrs, "linear_before_reset") != 0;
  spec.clip = attr_float(attrs, "clip", 0);
  static const std::vector<std::string> kDefaults[] = {
      {"Sigmoid", "Tanh", "Tanh"}, {"Sigmoid", "Tanh"}, {"Tanh"}};
  const auto& defaults = kDefaults[static_cast<int>(spec.cell)];
  std::vector<std::string> names = list_of<std::string>(attrs, "activations");
  if (names.empty()) names = defaults;
  if (names.size() != defaults.size()) {
    return invalid_argument(
        cat("activations: expected ", defaults.size(), " for ", cell, ", received ", names.size()));
  }
  const std::vector<double> alphas = list_of<double>(attrs, "activation_alpha"),
                            betas = list_of<double>(attrs, "activation_beta");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto number = [&](const std::vector<double>& of) {
      return i < of.size() ? std::optional(of[i]) : std::nullopt;
    };
    const auto activation = cell_activation(names[i], number(alphas), number(betas));
    if (!activation)
      return invalid_argument(
          cat("activations: expected one of ONNX's, received '", names[i], "'"));
    spec.activations.push_back(*activation);
  }
  return spec;
}

void register_recurrent_ops(Catalogue& catalogue) {
  catalogue.add(with_attributes(Op("leat.Recurrent")
                                    .input("x", "T")
                                    .input("r", "T")
                                    .optional_input("initial_h", "T")
                                    .optional_input("initial_c", "T")
                                    .optional_input("extra", "T")
                                    .optional_input("lengths", "int32")
                                    .output("y", "T")
                                    .optional_output("last_h", "T")
                                    .optional_output("last_c", "T")
                                    .optional_output("gates", "T")
                                    .optional_output("states", "T"))
                    .infer(infer_recurrent)
                    .gradient(recurrent_gradient)
                    .flops(recurrent_flops)
                    .sharding(shard_recurrent));
  catalogue.add(with_attributes(Op("leat.RecurrentGrad")
                                    .input("r", "T")
                                    .input("y", "T")
                                    .optional_input("gates", "T")
                                    .optional_input("states", "T")
                                    .optional_input("initial_h", "T")
                                    .optional_input("initial_c", "T")
                                    .optional_input("extra", "T")
                                    .optional_input("lengths", "int32")
                                    .optional_input("dy", "T")
                                    .optional_input("dlast_h", "T")
                                    .optional_input("dlast_c", "T")
                                    .output("dx", "T")
                                    .optional_output("dproducts", "T")
                                    .optional_output("dinitial_h", "T")
                                    .optional_output("dinitial_c", "T")
                                    .optional_output("before_h", "T")
                                    .optional_output("before_c", "T"))
                    .infer(infer_recurrent_grad)
                    .flops(recurrent_grad_flops));
}

}  // namespace leat
