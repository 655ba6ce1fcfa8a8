#include "ops/definitions/softmax.h"

#include <algorithm>

#include "ops/definitions/definitions.h"

namespace leat {
namespace {

Status infer_lines(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(
      [[maybe_unused]] const int axis,
      normalize_axis(ctx, attr_int(ctx.attrs(), "axis", -1), ctx.shape(0).rank()));
  return infer_same_as_first(ctx);
}

// dx has the type of y: its shape has the symbols of the forward op.
Status infer_lines_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(infer_lines(ctx));
  if (known_to_differ(ctx.shape(0), ctx.shape(1))) {
    return ctx.error("expected one shape, dy is " + ctx.text(ctx.shape(0)) + ", y is " +
                     ctx.text(ctx.shape(1)));
  }
  ctx.set_output(0, ctx.input(1));
  return {};
}

// A line along axis 0 goes through all rows, so that the op has no row tiles then. The gradient has
// two inputs of rows, dy and y.
Tiling tile_lines(const OpTypes& types) {
  const Shape& shape = types.inputs[0].shape;
  if (softmax_axis(*types.attrs, shape.rank()) == 0) return {};
  return {shape[0], types.inputs.size() == 2 ? 3u : 1u, 1};
}

// A split along any axis but that of the lines.
std::vector<ShardingRule> shard_lines(const std::vector<OperandType>& inputs,
                                      const std::vector<OperandType>&, const Attrs& attrs) {
  std::vector<ShardingRule> rules;
  const int rank = inputs[0].shape.rank(), axis = softmax_axis(attrs, rank);
  for (int i = 0; i < rank; ++i) {
    if (i != axis)
      rules.push_back({std::vector<Spread>(inputs.size(), Spread::on(i)), {Spread::on(i)}});
  }
  return rules;
}

// The gradient reads the output alone: dx = y (dy - sum(dy y)) for Softmax, and dx = dy - e^y
// sum(dy) for LogSoftmax.
Op softmax_op(const char* name, const char* grad_op) {
  return Op(name, 13)
      .input("input", "T")
      .output("output", "T")
      .attr("axis", int64_t{-1})
      .type("T", kFloats)
      .in_place(0, 0)
      .infer(infer_lines)
      .gradient([grad_op](GradientContext& ctx) -> Status {
        const Attrs attrs = {{"axis", attr_int(ctx.node().attrs, "axis", -1)}};
        ctx.set_grad(0, ctx.emit(grad_op, {ctx.grad(0), ctx.output(0)}, attrs));
        return {};
      })
      .sharding(shard_lines)
      .tiling(tile_lines);
}

Op grad_op(const char* name) {
  return Op(name)
      .input("dy", "T")
      .input("y", "T")
      .output("dx", "T")
      .attr("axis", int64_t{-1})
      .type("T", kFloats)
      .infer(infer_lines_grad)
      .sharding(shard_lines)
      .tiling(tile_lines);
}

}  // namespace

void register_softmax_ops(Catalogue& catalogue) {
  catalogue.add(softmax_op("Softmax", "leat.SoftmaxGrad"));
  catalogue.add(softmax_op("LogSoftmax", "leat.LogSoftmaxGrad"));
  catalogue.add(grad_op("leat.SoftmaxGrad"));
  catalogue.add(grad_op("leat.LogSoftmaxGrad"));
}

}  // namespace leat
