// The update rules of torch.optim: each is one op over one variable and its slots. The formulas and
// the order of their operations are those of PyTorch's single-tensor implementations (SGD without
// dampening, Adam, AdamW; none with amsgrad or maximize): hyperparameters are doubles, rounded to
// the type of the arithmetic at the operation that combines them with an element.
//
// A lazy update skips rows whose gradient is all zero: their weights and slots stay, without decay
// of the velocity, the moments or the weights. With ids, grad is a gradient of rows
// (ops/cpu/row_sum.h), and the result is equal to that of its dense form in every bit.
//
// If the guard is NaN, the op writes nothing (ops/cpu/guarded_kernel.h).
#include <cmath>
#include <type_traits>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/guard.h"
#include "ops/definitions/row_sum.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Signatures

// With ids, grad holds the lines of a gradient of rows (ops/cpu/row_sum.h).
Status check_rows(const InferContext& ctx, int grad, int ids, bool rows_suffice) {
  const SymbolicShape &var = ctx.shape(0), &values = ctx.shape(grad);
  if (!rows_suffice) {
    return ctx.error(
        "ids: expected SGD without weight decay, or lazy = 1: all others change every row");
  }
  LEAT_RETURN_IF_ERROR(infer_row_sum(ctx, grad, ids));
  bool fits = ctx.dtype(grad) == ctx.dtype(0) && var.rank() == values.rank();
  for (int d = 1; fits && d < var.rank(); ++d)
    fits = var[d] == values[d] || !values[d].is_constant();
  if (fits) return {};
  return ctx.error(cat("input ", grad, ": expected rows of ", ctx.dtype(0), ctx.text(var),
                       ", received ", ctx.dtype(grad), ctx.text(values)));
}

// A gradient of the dtype and the shape of the variable, or, for one in float, of the 16 bits that
// leat_from names.
Status check_gradient(InferContext& ctx, int grad) {
  if (!has_attr(ctx.attrs(), "leat_from")) return expect_fits(ctx, grad);
  const DType from = dtype_from_onnx_code(attr_int(ctx.attrs(), "leat_from"));
  bool fits = ctx.dtype(0) == DType::f32 && is_16bit_float(from) && ctx.dtype(grad) == from &&
              ctx.shape(0).rank() == ctx.shape(grad).rank();
  for (int i = 0; fits && i < ctx.shape(0).rank(); ++i)
    fits = !known_to_differ(ctx.shape(0)[i], ctx.shape(grad)[i]);
  if (fits) return {};
  return ctx.error(cat("leat_from: expected a gradient of bfloat16 or float16 ",
                       ctx.text(ctx.shape(0)), " for a variable of float, received ",
                       ctx.dtype(grad), ctx.text(ctx.shape(grad))));
}

// Inputs [0, variables) are the variable and its slots; grad and lr follow. `ids` is the last input
// but one, and the guard the last.
Status infer_apply(InferContext& ctx, int variables, int ids) {
  LEAT_RETURN_IF_ERROR(expect_equal_variables(ctx, variables));
  if (ctx.has_input(ids)) {
    LEAT_RETURN_IF_ERROR(
        check_rows(ctx, variables, ids, changes_touched_rows_only(variables == 1, ctx.attrs())));
  } else {
    LEAT_RETURN_IF_ERROR(check_gradient(ctx, variables));
  }
  const int lr = variables + 1;
  if (ctx.shape(lr).rank() != 0) {
    return ctx.error(cat("lr: expected a scalar, received ", ctx.text(ctx.shape(lr))));
  }
  if (ctx.dtype(lr) != ctx.dtype(0))
    return ctx.error(
        cat("lr: expected ", ctx.dtype(0), " as the variable has, received ", ctx.dtype(lr)));
  LEAT_RETURN_IF_ERROR(infer_guard(ctx, ids + 1));
  return infer_done(ctx);
}

// Checks that a hyperparameter is in [low, high); high == infinity means no upper limit.
Status expect_within(const InferContext& ctx, std::string_view name, double low, double high) {
  const double value = attr_float(ctx.attrs(), name);
  if (value >= low && value < high) return {};
  return ctx.error(cat(name, ": expected in [", low, ", ", high, "), received ", value));
}

Status infer_sgd(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "weight_decay", 0, HUGE_VAL));
  return infer_apply(ctx, 1, 3);
}

Status infer_momentum(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "weight_decay", 0, HUGE_VAL));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "momentum", 0, HUGE_VAL));
  if (attr_int(ctx.attrs(), "nesterov") != 0 && attr_float(ctx.attrs(), "momentum") == 0) {
    return ctx.error("nesterov: expected a momentum above 0, received 0");
  }
  return infer_apply(ctx, 2, 4);
}

Status infer_adam(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "beta_1", 0, 1));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "beta_2", 0, 1));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "epsilon", 0, HUGE_VAL));
  LEAT_RETURN_IF_ERROR(expect_within(ctx, "weight_decay", 0, HUGE_VAL));
  if (ctx.shape(5).rank() != 0) {
    return ctx.error(cat("step: expected a scalar, received ", ctx.text(ctx.shape(5))));
  }
  return infer_apply(ctx, 3, 6);
}

// Adds the operands and attributes that every Apply op has after its own.
Op apply_op(Op op) {
  return with_row_sum_attrs(op.optional_input("ids", "Tind")
                                .optional_input(std::string(kGuard), "float")
                                .optional_output("done", "token")
                                .type("T", kFloats)
                                .type("G", kFloats)
                                .type("Tind", kIndexTypes)
                                .attr("lazy", int64_t{0})
                                .attr_optional("leat_from", "int")  // grad's dtype: lighten()
                                .writes(0));
}

Op adam_op(std::string_view name, double weight_decay) {
  return apply_op(Op(name)
                      .input("var", "resource")
                      .input("m", "resource")
                      .input("v", "resource")
                      .input("grad", "G")
                      .input("lr", "T")
                      .input("step", "int64"))
      .attr("beta_1", 0.9)
      .attr("beta_2", 0.999)
      .attr("epsilon", 1e-8)
      .attr("weight_decay", weight_decay)
      // The moments are slots that the op writes as well.
      .writes(1)
      .writes(2)
      .infer(infer_adam);
}

}  // namespace

void register_optimizer_ops(Catalogue& catalogue) {
  catalogue.add(
      apply_op(Op("leat.ApplySgd").input("var", "resource").input("grad", "G").input("lr", "T"))
          .attr("weight_decay", 0.0)
          .infer(infer_sgd));
  catalogue.add(apply_op(Op("leat.ApplyMomentum")
                             .input("var", "resource")
                             .input("velocity", "resource")
                             .input("grad", "G")
                             .input("lr", "T"))
                    .attr_required("momentum", "float")
                    .attr("nesterov", int64_t{0})
                    .attr("weight_decay", 0.0)
                    .writes(1)
                    .infer(infer_momentum));
  catalogue.add(adam_op("leat.ApplyAdam", 0.0));
  catalogue.add(adam_op("leat.ApplyAdamW", 0.01));
}

}  // namespace leat
