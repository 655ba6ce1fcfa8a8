#include "ops/definitions/dft.h"

#include <vector>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// The form of a node with x of this rank; an error if there is no such axis.
Result<DftForm> dft_form(const Attrs& attrs, const std::optional<std::vector<int64_t>>& axis,
                         int rank) {
  const int64_t given = axis && axis->size() == 1 ? (*axis)[0] : -2;
  DftForm form;
  form.inverse = attr_int(attrs, "inverse") != 0;
  form.onesided = attr_int(attrs, "onesided") != 0;
  const int64_t at = given < 0 ? given + rank : given;
  if (at < 0 || at >= rank - 1) {
    return invalid_argument(cat("axis: expected in [", -rank, ", -2] or [0, ", rank - 2,
                                "], the last axis has the complex numbers, received ", given));
  }
  form.axis = static_cast<int>(at);
  return form;
}

Status expect_one_number(const InferContext& ctx, int i, std::string_view name) {
  if (!ctx.has_input(i)) return {};
  const SymbolicShape& shape = ctx.shape(i);
  if (shape.rank() == 0 || (shape.rank() == 1 && shape[0] == Dim::of(1))) return {};
  return ctx.error(cat(name, ": expected a scalar, received ", ctx.text(shape)));
}

Status check_signal(const InferContext& ctx, const SymbolicShape& x, const DftForm& form) {
  const Dim parts = x[x.rank() - 1];
  if (!(parts == Dim::of(1)) && !(parts == Dim::of(2))) {
    return ctx.error(cat("input: expected the last size to be 1, of real numbers, or 2, of complex",
                         " ones, received ", ctx.text(x)));
  }
  if (form.onesided && !(parts == Dim::of(form.inverse ? 2 : 1))) {
    return ctx.error(cat("input: expected ", form.inverse ? "complex" : "real",
                         " numbers, since onesided is 1 and inverse is ", form.inverse ? 1 : 0,
                         ", received ", ctx.text(x)));
  }
  return {};
}

// The length of the transform, as far as it is known.
Result<std::optional<Dim>> length_of_transform(const InferContext& ctx, const DftForm& form,
                                               Dim size, int length_input) {
  std::optional<Dim> length;
  if (ctx.has_input(length_input)) {
    if (const auto sizes = known_sizes(ctx, length_input)) length = (*sizes)[0];
  } else if (size.is_constant()) {
    length = Dim::of(default_dft_length(form, size.factor));
  } else if (!form.real_result()) {
    length = size;
  }
  if (length && length->is_constant() && length->factor < 1)
    return ctx.error(cat("dft_length: expected at least 1, received ", length->factor));
  return length;
}

// The shape of the transform of x; the axis is the input behind `length_input`.
Result<SymbolicShape> shape_of_transform(InferContext& ctx, const SymbolicShape& x,
                                         int length_input) {
  const int axis_input = length_input + 1;
  if (x.rank() < 2)
    return ctx.error(cat("input: expected [...,length,1 or 2], received ", ctx.text(x)));
  LEAT_RETURN_IF_ERROR(expect_one_number(ctx, length_input, "dft_length"));
  LEAT_RETURN_IF_ERROR(expect_one_number(ctx, axis_input, "axis"));
  const auto axis = known_ints(ctx, axis_input);
  if (ctx.has_input(axis_input) && !axis)
    return ctx.error("axis: expected a value that is known before the graph runs");
  const Result<DftForm> form = dft_form(ctx.attrs(), axis, x.rank());
  if (!form.ok()) return ctx.error(form.status().message());
  LEAT_RETURN_IF_ERROR(check_signal(ctx, x, *form));
  LEAT_ASSIGN_OR_RETURN(const std::optional<Dim> length,
                        length_of_transform(ctx, *form, x[form->axis], length_input));
  SymbolicShape y = x;
  if (length && length->is_constant())
    y.set(form->axis, Dim::of(dft_results(*form, length->factor)));
  else if (length && !(form->onesided && !form->inverse))
    y.set(form->axis, *length);
  else
    y.set(form->axis, Dim::of_symbol(ctx.fresh_symbol()));
  y.set(x.rank() - 1, Dim::of(form->real_result() ? 1 : 2));
  return y;
}

Status infer_dft(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, shape_of_transform(ctx, ctx.shape(0), 1));
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

// Inputs: dy, a shape or a value of the shape of the input, dft_length, the axis.
Status infer_dft_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape x, infer_shape_or_like(ctx, 1));
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, shape_of_transform(ctx, x, 2));
  const SymbolicShape& dy = ctx.shape(0);
  if (dy.rank() != y.rank() || known_to_differ(dy, y))
    return ctx.error(cat("dY: expected ", ctx.text(y), ", received ", ctx.text(dy)));
  ctx.set_tensor(0, ctx.dtype(0), x);
  return {};
}

std::vector<ValueId> without_absent_ends(std::vector<ValueId> inputs) {
  while (inputs.back() == kNone) inputs.pop_back();
  return inputs;
}

Status dft_gradient(GradientContext& ctx) {
  const ValueId shape = shape_or_like(ctx, ctx.input(0));
  ctx.set_grad(0, ctx.emit("leat.DFTGrad",
                           without_absent_ends({ctx.grad(0), shape, ctx.input(1), ctx.input(2)}),
                           ctx.node().attrs));
  return {};
}

// The transform is linear, so the gradient of its gradient is the transform.
Status dft_grad_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("DFT", without_absent_ends({ctx.grad(0), ctx.input(2), ctx.input(3)}),
                           ctx.node().attrs));
  return {};
}

// The transform of a sum is the sum of the transforms. Without an axis that is an input, whose
// value this rule does not see, every axis in front of the transform's may be split.
std::vector<ShardingRule> shard_dft(const std::vector<OperandType>& inputs, int length_input) {
  std::vector<ShardingRule> rules{{{Spread::sum()}, {Spread::sum()}}};
  const size_t axis_input = static_cast<size_t>(length_input) + 1;
  const bool default_axis = inputs.size() <= axis_input || !inputs[axis_input].present;
  // The gradient has its shape from a constant, which is that of the whole, or from a value.
  const bool of_value = length_input == 1 || is_float(inputs[1].dtype);
  for (int axis = 0; default_axis && of_value && axis + 2 < inputs[0].shape.rank(); ++axis) {
    ShardingRule& rule = rules.emplace_back();
    rule.inputs.assign(static_cast<size_t>(length_input), Spread::on(axis));
    rule.outputs = {Spread::on(axis)};
  }
  return with_whole_operands(std::move(rules), inputs.size());
}

auto sharding_of_dft(int length_input) {
  return [length_input](const std::vector<OperandType>& inputs, const std::vector<OperandType>&,
                        const Attrs&) { return shard_dft(inputs, length_input); };
}

Op with_dft_attributes(Op op) {
  return op.optional_input("dft_length", "T2")
      .optional_input("axis", "int64")
      .type("T1", kFloats)
      .type("T2", kIndexTypes)
      .attr("inverse", int64_t{0})
      .attr("onesided", int64_t{0});
}

}  // namespace

Result<DftSpec> dft_spec_of(const KernelSetup& setup, const Shape& x, const Shape& y,
                            int length_input) {
  const Result<DftForm> form =
      dft_form(setup.attrs(), known_ints(setup, length_input + 1), x.rank());
  if (!form.ok()) return invalid_argument(cat(setup.subject, ": ", form.status().message()));
  DftSpec spec{*form, y[form->axis]};
  const bool given = setup.types.has_input(length_input);
  if (form->onesided && !form->inverse) {
    const auto length = known_ints(setup, length_input);
    if (given && !length)
      return invalid_argument(cat(setup.subject, ": dft_length: expected a value that is known ",
                                  "before the graph runs"));
    spec.length = given ? (*length)[0] : x[form->axis];
  }
  bool fits = spec.length >= 1 && dft_results(*form, spec.length) == y[form->axis];
  fits = fits && (given || spec.length == default_dft_length(*form, x[form->axis]));
  for (int d = 0; fits && d + 1 < x.rank(); ++d) fits = d == form->axis || x[d] == y[d];
  if (fits) return spec;
  return invalid_argument(cat(setup.subject, ": a transform of ", x.to_string(), " along axis ",
                              form->axis, " does not give ", y.to_string()));
}

void register_dft_ops(Catalogue& catalogue) {
  catalogue.add(with_dft_attributes(Op("DFT", 20).input("input", "T1").output("output", "T1"))
                    .infer(infer_dft)
                    .gradient(dft_gradient)
                    .sharding(sharding_of_dft(1)));
  catalogue.add(with_dft_attributes(Op("leat.DFTGrad")
                                        .input("dY", "T1")
                                        .input("shape", "S")
                                        .output("dX", "T1")
                                        .type("S", kShapeOrLike))
                    .infer(infer_dft_grad)
                    .gradient(dft_grad_gradient)
                    .sharding(sharding_of_dft(2)));
}

}  // namespace leat
