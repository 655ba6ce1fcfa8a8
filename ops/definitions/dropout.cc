#include <algorithm>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

// Checks ratio (input `ratio`) and training_mode (the input after it): both are optional scalars,
// and a ratio that is known must be in [0, 1]. The kernel checks the other ratios when a step runs.
Status check_switches(const InferContext& ctx, int ratio) {
  for (int i : {ratio, ratio + 1}) {
    if (!ctx.has_input(i) || ctx.shape(i).rank() == 0 || ctx.shape(i) == SymbolicShape{Dim::of(1)})
      continue;
    return ctx.error(cat(i == ratio ? "ratio" : "training_mode",
                         ": expected a scalar, received shape ", ctx.text(ctx.shape(i))));
  }
  if (const Tensor* value = ctx.constant(ratio);
      value && !(value->at(0) >= 0 && value->at(0) <= 1)) {
    return ctx.error(cat("ratio: expected in [0, 1], received ", value->at(0)));
  }
  return {};
}

Status infer_dropout(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_switches(ctx, 1));
  ctx.set_output(0, ctx.input(0));
  ctx.set_tensor(1, DType::boolean, ctx.shape(0));
  return {};
}

// The shape comes from the mask and not from dy, because the mask has the symbols of the forward
// op.
Status infer_dropout_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_switches(ctx, 2));
  const SymbolicShape &dy = ctx.shape(0), &mask = ctx.shape(1);
  if (known_to_differ(dy, mask)) {
    return ctx.error(cat("expected one shape, dy is ", ctx.text(dy), ", mask is ", ctx.text(mask)));
  }
  ctx.set_tensor(0, ctx.dtype(0), mask);
  return {};
}

// The mask becomes an output of the forward node, so that the backward pass does not draw again.
Status dropout_gradient(GradientContext& ctx) {
  if (!ctx.needs(0)) return {};
  const ValueId mask = ctx.optional_output(1);
  ctx.set_grad(0, ctx.emit("leat.DropoutGrad", {ctx.grad(0), mask, ctx.input(1), ctx.input(2)}));
  return {};
}

// Axis 0 may be split anywhere: Node::first_row is the first row of this shard in the global mask.
auto shard_rows(int row_inputs) {
  return [row_inputs](const std::vector<OperandType>& inputs,
                      const std::vector<OperandType>& outputs, const Attrs&) {
    std::vector<ShardingRule> rules;
    if (inputs[0].shape.rank() == 0) return rules;
    std::vector<Spread> spreads(inputs.size());
    for (int i = 0; i < row_inputs; ++i) spreads[static_cast<size_t>(i)] = Spread::on(0);
    rules.push_back({spreads, std::vector<Spread>(outputs.size(), Spread::on(0))});
    return rules;
  };
}

// Rows are independent: a kernel draws element i of the global tensor by its index alone. The
// output bits are Y and, if it is wanted, the mask.
Tiling tile_dropout(const OpTypes& types) {
  if (types.inputs[0].shape.rank() == 0) return {};
  return {types.inputs[0].shape[0], 1, types.has_output(1) ? 3u : 1u};
}

Tiling tile_dropout_grad(const OpTypes& types) {
  if (types.inputs[0].shape.rank() == 0) return {};
  return {types.inputs[0].shape[0], 3, 1};
}

}  // namespace

void register_dropout_ops(Catalogue& catalogue) {
  catalogue.add(Op("Dropout", 13)
                    .input("data", "T")
                    .optional_input("ratio", "T1")
                    .optional_input("training_mode", "bool")
                    .output("output", "T")
                    .optional_output("mask", "bool")
                    .attr_optional("seed", "int")
                    .type("T", kFloats)
                    .type("T1", kFloats)
                    .random()
                    .in_place(0, 0)
                    .infer(infer_dropout)
                    .gradient(dropout_gradient)
                    .sharding(shard_rows(1))
                    .tiling(tile_dropout));
  catalogue.add(Op("leat.DropoutGrad")
                    .input("dy", "T")
                    .input("mask", "bool")
                    .optional_input("ratio", "T1")
                    .optional_input("training_mode", "bool")
                    .output("dx", "T")
                    .type("T", kFloats)
                    .type("T1", kFloats)
                    .in_place(0, 0)
                    .infer(infer_dropout_grad)
                    .sharding(shard_rows(2))
                    .tiling(tile_dropout_grad));
}

}  // namespace leat
