#include "devices/base/text.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

std::string reduction_of(const Attrs& attrs) { return attr_string(attrs, "reduction", "mean"); }

// Checks scores [N, C, d1, ...], labels [N, d1, ...] and weights [C].
Status check_operands(const InferContext& ctx, int scores, int labels, int weights) {
  const std::string reduction = reduction_of(ctx.attrs());
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return ctx.error(cat("reduction: expected none, sum or mean, received '", reduction, "'"));
  }
  const SymbolicShape &x = ctx.shape(scores), &y = ctx.shape(labels);
  if (x.rank() < 2) return ctx.error(cat("scores: expected [N,C,...], received ", ctx.text(x)));
  bool fits = y.rank() == x.rank() - 1 && !known_to_differ(x[0], y[0]);
  for (int i = 1; fits && i < y.rank(); ++i) fits = !known_to_differ(x[i + 1], y[i]);
  if (!fits) {
    return ctx.error(cat("labels: expected the shape of scores ", ctx.text(x),
                         " without its axis 1, received ", ctx.text(y)));
  }
  if (x[1] == Dim::of(0))
    return ctx.error(cat("scores: expected at least one class, received ", ctx.text(x)));
  if (!ctx.has_input(weights)) return {};
  const SymbolicShape& w = ctx.shape(weights);
  if (w.rank() != 1 || known_to_differ(w[0], x[1])) {
    return ctx.error(cat("weights: expected one for each class of scores ", ctx.text(x),
                         ", received shape ", ctx.text(w)));
  }
  return {};
}

// With reduction none there is one loss per label; else the loss is a scalar.
Status infer_loss(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_operands(ctx, 0, 1, 2));
  const bool none = reduction_of(ctx.attrs()) == "none";
  ctx.set_tensor(0, ctx.dtype(0), none ? ctx.shape(1) : SymbolicShape());
  ctx.set_output(1, ctx.input(0));  // output 1, if it is there
  return {};
}

Status infer_loss_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_operands(ctx, 1, 2, 3));
  const bool none = reduction_of(ctx.attrs()) == "none";
  const SymbolicShape expected = none ? ctx.shape(2) : SymbolicShape(), &dloss = ctx.shape(0);
  bool fits = dloss.rank() == expected.rank();
  for (int i = 0; fits && i < dloss.rank(); ++i) fits = !known_to_differ(dloss[i], expected[i]);
  if (!fits)
    return ctx.error(
        cat("dloss: expected shape ", ctx.text(expected), ", received ", ctx.text(dloss)));
  ctx.set_output(0, ctx.input(1));
  return {};
}

// The attributes of the loss, for the node of its gradient.
Attrs attrs_of(const GradientContext& ctx) { return ctx.node().attrs; }

// The gradient is the sum of two: one through the loss, which needs only log_prob and the labels,
// and one through log_prob if the graph uses that output.
Status softmax_loss_gradient(GradientContext& ctx) {
  if (!ctx.needs(0)) return {};
  const ValueId log_prob = ctx.optional_output(1);
  ValueId grad = kNone;
  if (ctx.grad(0) != kNone) {
    grad = ctx.emit("leat.SoftmaxCrossEntropyLossGrad",
                    {ctx.grad(0), log_prob, ctx.input(1), ctx.input(2)}, attrs_of(ctx));
  }
  if (ctx.grad(1) != kNone) {
    const ValueId through =
        ctx.emit("leat.LogSoftmaxGrad", {ctx.grad(1), log_prob}, {{"axis", int64_t{1}}});
    grad = grad == kNone ? through : ctx.emit("Add", {grad, through});
  }
  ctx.set_grad(0, grad);
  return {};
}

// This op gets log-probabilities and has no second output.
Status likelihood_loss_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("leat.NegativeLogLikelihoodLossGrad",
                           {ctx.grad(0), ctx.input(0), ctx.input(1), ctx.input(2)}, attrs_of(ctx)));
  return {};
}

// Scores and labels are of rows. A reduced loss is complete after the last phase, so it is no
// output of rows.
Tiling tile_loss(const OpTypes& types) {
  const bool none = reduction_of(*types.attrs) == "none";
  return {types.inputs[0].shape[0], 3, (none ? 1u : 0u) | (types.has_output(1) ? 2u : 0u)};
}

// Labels are whole if their weights are summed first.
Tiling tile_loss_grad(const OpTypes& types) {
  const std::string reduction = reduction_of(*types.attrs);
  const bool sums_weights =
      reduction == "mean" && (types.has_input(3) || has_attr(*types.attrs, "ignore_index"));
  return {types.inputs[1].shape[0], 2u | (sums_weights ? 0u : 4u) | (reduction == "none" ? 1u : 0u),
          1};
}

// Samples are independent and their losses add up, but a mean of means is not the mean.
std::vector<ShardingRule> shard_loss(const std::vector<OperandType>& inputs,
                                     const std::vector<OperandType>& outputs, const Attrs& attrs) {
  const std::string reduction = reduction_of(attrs);
  if (reduction == "mean") return {};
  std::vector<Spread> spreads(inputs.size());
  spreads[0] = spreads[1] = Spread::on(0);
  std::vector<Spread> results(outputs.size(), Spread::on(0));
  if (reduction == "sum") results[0] = Spread::sum();
  return {{spreads, results}};
}

// `given`: the op gets log-probabilities (NegativeLogLikelihoodLoss), else it computes them from
// scores.
Op loss_op(const char* name, int since, bool given) {
  Op op(name, since);
  op.input(given ? "input" : "scores", "T")
      .input(given ? "target" : "labels", "Tind")
      .optional_input(given ? "weight" : "weights", "T")
      .output(given ? "loss" : "output", "T");
  if (!given) op.optional_output("log_prob", "T");
  return op.attr("reduction", std::string("mean"))
      .attr_optional("ignore_index", "int")
      .type("T", kFloats)
      .type("Tind", kIndexTypes)
      .infer(infer_loss)
      .gradient(given ? likelihood_loss_gradient : softmax_loss_gradient)
      .sharding(shard_loss)
      .tiling(tile_loss);
}

Op loss_grad_op(const char* name) {
  return Op(name)
      .input("dloss", "T")
      .input("log_prob", "T")
      .input("labels", "Tind")
      .optional_input("weights", "T")
      .output("dscores", "T")
      .attr("reduction", std::string("mean"))
      .attr_optional("ignore_index", "int")
      .type("T", kFloats)
      .type("Tind", kIndexTypes)
      .infer(infer_loss_grad)
      .tiling(tile_loss_grad);
}

// The type in which a loss of these scores is computed.
DType computes_in(DType scores) { return scores == DType::f64 ? DType::f64 : DType::f32; }

// stats [2, N, d1, ...]: of each position the largest score, and the logarithm of the sum of the
// exponentials of the scores less that one.
SymbolicShape stats_shape(const SymbolicShape& labels) {
  SymbolicShape shape{Dim::of(2)};
  for (int i = 0; i < labels.rank(); ++i) shape.push_back(labels[i]);
  return shape;
}

Status check_weights_dtype(const InferContext& ctx, int scores, int weights) {
  const DType dtype = computes_in(ctx.dtype(scores));
  if (!ctx.has_input(weights) || ctx.dtype(weights) == dtype) return {};
  return ctx.error(cat("weights: expected ", dtype_name(dtype), " for scores of ",
                       dtype_name(ctx.dtype(scores)), ", received ",
                       dtype_name(ctx.dtype(weights))));
}

Status infer_cross_entropy(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_operands(ctx, 0, 1, 2));
  LEAT_RETURN_IF_ERROR(check_weights_dtype(ctx, 0, 2));
  const bool none = reduction_of(ctx.attrs()) == "none";
  const DType dtype = computes_in(ctx.dtype(0));
  ctx.set_tensor(0, dtype, none ? ctx.shape(1) : SymbolicShape());
  ctx.set_tensor(1, dtype, stats_shape(ctx.shape(1)));
  return {};
}

Status infer_cross_entropy_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_operands(ctx, 1, 3, 4));
  LEAT_RETURN_IF_ERROR(check_weights_dtype(ctx, 1, 4));
  const bool none = reduction_of(ctx.attrs()) == "none";
  const SymbolicShape expected[] = {none ? ctx.shape(3) : SymbolicShape(),
                                    stats_shape(ctx.shape(3))};
  const DType dtype = computes_in(ctx.dtype(1));
  for (const int i : {0, 2}) {
    const SymbolicShape& shape = ctx.shape(i);
    const SymbolicShape& wanted = expected[i / 2];
    bool fits = ctx.dtype(i) == dtype && shape.rank() == wanted.rank();
    for (int k = 0; fits && k < shape.rank(); ++k) fits = !known_to_differ(shape[k], wanted[k]);
    if (!fits)
      return ctx.error(cat(i == 0 ? "dloss" : "stats", ": expected ", dtype_name(dtype),
                           ctx.text(wanted), ", received ", dtype_name(ctx.dtype(i)),
                           ctx.text(shape)));
  }
  ctx.set_output(0, ctx.input(1));
  return {};
}

Op with_reduction(Op op) {
  return op.attr("reduction", std::string("mean"))
      .attr_optional("ignore_index", "int")
      .type("T", DTypeSet::of(DType::f32, DType::f64))
      .type("S", kFloats)
      .type("Tind", kIndexTypes);
}

// The operands of a CTC loss behind input `first`: log probabilities [N,T,C], labels [N,S], and the
// lengths of both, [N].
Status check_sequences(const InferContext& ctx, int first) {
  const SymbolicShape &x = ctx.shape(first), &y = ctx.shape(first + 1);
  if (x.rank() != 3) return ctx.error(cat("log_probs: expected [N,T,C], received ", ctx.text(x)));
  if (y.rank() != 2 || known_to_differ(y[0], x[0])) {
    return ctx.error(cat("labels: expected [N,S] with the N of log_probs ", ctx.text(x),
                         ", received ", ctx.text(y)));
  }
  for (const int i : {first + 2, first + 3}) {
    if (!ctx.has_input(i)) continue;
    const SymbolicShape& lengths = ctx.shape(i);
    if (lengths.rank() == 1 && !known_to_differ(lengths[0], x[0])) continue;
    return ctx.error(cat(i == first + 2 ? "input_lengths" : "label_lengths",
                         ": expected one for each row of log_probs ", ctx.text(x), ", received ",
                         ctx.text(lengths)));
  }
  const int64_t blank = attr_int(ctx.attrs(), "blank");
  if (blank >= 0 && (!x[2].is_constant() || blank < x[2].factor)) return {};
  return ctx.error(cat("blank: expected a class of log_probs ", ctx.text(x), ", received ", blank));
}

Status infer_ctc(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_sequences(ctx, 0));
  SymbolicShape rows;
  rows.push_back(ctx.shape(0)[0]);
  ctx.set_tensor(0, ctx.dtype(0), rows);
  return {};
}

Status infer_ctc_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_sequences(ctx, 1));
  const SymbolicShape& dloss = ctx.shape(0);
  if (dloss.rank() != 1 || known_to_differ(dloss[0], ctx.shape(1)[0])) {
    return ctx.error(cat("dloss: expected one for each row of log_probs ", ctx.text(ctx.shape(1)),
                         ", received ", ctx.text(dloss)));
  }
  ctx.set_output(0, ctx.input(1));
  return {};
}

Status ctc_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("leat.CtcLossGrad",
                           {ctx.grad(0), ctx.input(0), ctx.input(1), ctx.input(2), ctx.input(3)},
                           attrs_of(ctx)));
  return {};
}

// All operands are of rows.
Tiling tile_ctc(const OpTypes& types) {
  uint32_t inputs = 0;
  for (int i = 0; i < static_cast<int>(types.inputs.size()); ++i) {
    if (types.has_input(i)) inputs |= 1u << i;
  }
  return {types.outputs[0].shape[0], inputs, 1u};
}

std::vector<ShardingRule> shard_ctc(const std::vector<OperandType>& inputs,
                                    const std::vector<OperandType>& outputs, const Attrs&) {
  return {{std::vector<Spread>(inputs.size(), Spread::on(0)),
           std::vector<Spread>(outputs.size(), Spread::on(0))}};
}

Op with_sequences(Op op) {
  return op.input("log_probs", "T")
      .input("labels", "Tind")
      .optional_input("input_lengths", "Tind")
      .optional_input("label_lengths", "Tind")
      .attr("blank", int64_t{0})
      .attr("zero_infinity", int64_t{0})
      .type("T", DTypeSet::of(DType::f32, DType::f64))
      .type("Tind", kIndexTypes)
      .tiling(tile_ctc)
      .sharding(shard_ctc);
}

}  // namespace

void register_loss_ops(Catalogue& catalogue) {
  catalogue.add(loss_op("SoftmaxCrossEntropyLoss", 13, false));
  catalogue.add(loss_op("NegativeLogLikelihoodLoss", 13, true));
  catalogue.add(loss_grad_op("leat.SoftmaxCrossEntropyLossGrad"));
  catalogue.add(loss_grad_op("leat.NegativeLogLikelihoodLossGrad"));
  // A SoftmaxCrossEntropyLoss, and its gradient, that keep two numbers of each position in place of
  // the log probabilities of all classes. Scores of 16 bits are computed in float32.
  catalogue.add(with_reduction(Op("leat.CrossEntropy")
                                   .input("scores", "S")
                                   .input("labels", "Tind")
                                   .optional_input("weights", "T")
                                   .output("loss", "T")
                                   .output("stats", "T")
                                   .infer(infer_cross_entropy)));
  catalogue.add(with_reduction(Op("leat.CrossEntropyGrad")
                                   .input("dloss", "T")
                                   .input("scores", "S")
                                   .input("stats", "T")
                                   .input("labels", "Tind")
                                   .optional_input("weights", "T")
                                   .output("dscores", "S")
                                   .infer(infer_cross_entropy_grad)));
  // The connectionist temporal classification of Graves et al. (2006), for each row: -log of the
  // probability of all paths that become the labels when repetitions are joined and blanks left
  // out. It is infinite if the output is too short for the labels; with zero_infinity such a row
  // has the loss and the gradient 0.
  catalogue.add(with_sequences(Op("leat.CtcLoss"))
                    .output("loss", "T")
                    .infer(infer_ctc)
                    .gradient(ctc_gradient));
  catalogue.add(with_sequences(Op("leat.CtcLossGrad").input("dloss", "T"))
                    .output("dlog_probs", "T")
                    .infer(infer_ctc_grad));
}

}  // namespace leat
