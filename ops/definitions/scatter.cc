// Ops that write by index, read by index tuples, or make indices: ScatterElements, ScatterND,
// GatherND, Range, Trilu, CumSum, CumProd, TopK.
#include <cmath>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/range.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

// --- ScatterElements and ScatterND -------------------------------------------------------------

Status check_reduction(const InferContext& ctx) {
  const std::string reduction = attr_string(ctx.attrs(), "reduction");
  for (const char* known : {"none", "add", "mul", "min", "max"}) {
    if (reduction == known) return {};
  }
  return ctx.error(
      cat("reduction: expected none, add, mul, min or max, received '", reduction, "'"));
}

Status infer_scatter_elements(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_reduction(ctx));
  const SymbolicShape &data = ctx.shape(0), &indices = ctx.shape(1), &updates = ctx.shape(2);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), data.rank()));
  bool fits = indices.rank() == data.rank() && !known_to_differ(indices, updates) &&
              updates.rank() == indices.rank();
  for (int d = 0; fits && d < data.rank(); ++d) {
    const bool known = data[d].is_constant() && indices[d].is_constant();
    fits = d == axis || !known || indices[d].factor <= data[d].factor;
  }
  if (!fits) {
    return ctx.error(cat("expected indices and updates of one shape, of data's rank and, but for ",
                         "axis ", axis, ", no larger: data is ", ctx.text(data), ", indices are ",
                         ctx.text(indices), ", updates are ", ctx.text(updates)));
  }
  return infer_same_as_first(ctx);
}

// The length of the tuples: the last size of the indices.
Result<int> tuple_length(const InferContext& ctx, const SymbolicShape& indices, int most) {
  if (indices.rank() == 0) return ctx.error("indices: expected a rank of at least 1, received 0");
  const Dim last = indices[indices.rank() - 1];
  if (!last.is_constant() || last.factor < 0 || last.factor > most) {
    return ctx.error(
        cat("indices: expected tuples of 0 to ", most, " numbers, received ", ctx.text(indices)));
  }
  return static_cast<int>(last.factor);
}

// The shape of what the tuples pick: that of the indices without the last size, then the sizes of
// data behind the indexed ones.
Result<SymbolicShape> picked_shape(const InferContext& ctx, const SymbolicShape& data,
                                   const SymbolicShape& indices, int batch_dims) {
  if (batch_dims < 0 || batch_dims > data.rank() || batch_dims >= indices.rank())
    return ctx.error(cat("batch_dims: expected 0 to ", std::min(data.rank(), indices.rank() - 1),
                         ", received ", batch_dims));
  LEAT_ASSIGN_OR_RETURN(const int length, tuple_length(ctx, indices, data.rank() - batch_dims));
  for (int d = 0; d < batch_dims; ++d) {
    if (known_to_differ(SymbolicShape{data[d]}, SymbolicShape{indices[d]}))
      return ctx.error(cat("expected equal sizes of the batch, data is ", ctx.text(data),
                           ", indices are ", ctx.text(indices)));
  }
  if (indices.rank() - 1 + data.rank() - batch_dims - length > kMaxRank)
    return ctx.error(cat("expected an output of rank at most ", kMaxRank));
  SymbolicShape out;
  for (int d = 0; d + 1 < indices.rank(); ++d) out.push_back(indices[d]);
  for (int d = batch_dims + length; d < data.rank(); ++d) out.push_back(data[d]);
  return out;
}

Status infer_scatter_nd(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_reduction(ctx));
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape expected,
                        picked_shape(ctx, ctx.shape(0), ctx.shape(1), 0));
  const SymbolicShape& updates = ctx.shape(2);
  bool fits = expected.rank() == updates.rank();
  for (int d = 0; fits && d < updates.rank(); ++d)
    fits = !known_to_differ(SymbolicShape{expected[d]}, SymbolicShape{updates[d]});
  if (!fits) {
    return ctx.error(
        cat("updates: expected ", ctx.text(expected), ", received ", ctx.text(updates)));
  }
  return infer_same_as_first(ctx);
}

Status infer_gather_nd(InferContext& ctx) {
  const auto batch_dims = static_cast<int>(attr_int(ctx.attrs(), "batch_dims"));
  LEAT_ASSIGN_OR_RETURN(SymbolicShape out,
                        picked_shape(ctx, ctx.shape(0), ctx.shape(1), batch_dims));
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// Inputs: dy, the indices, and a shape or a value of the shape of the data.
Status infer_gather_nd_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape data, infer_shape_or_like(ctx, 2));
  const auto batch_dims = static_cast<int>(attr_int(ctx.attrs(), "batch_dims"));
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape out, picked_shape(ctx, data, ctx.shape(1), batch_dims));
  if (out.rank() != ctx.shape(0).rank() || known_to_differ(out, ctx.shape(0)))
    return ctx.error(
        cat("expected a gradient of ", ctx.text(out), ", received ", ctx.text(ctx.shape(0))));
  ctx.set_tensor(0, ctx.dtype(0), data);
  return {};
}

Status gather_nd_gradient(GradientContext& ctx) {
  const ValueId shape = shape_or_like(ctx, ctx.input(0));
  ctx.set_grad(0,
               ctx.emit("leat.GatherNDGrad", {ctx.grad(0), ctx.input(1), shape}, ctx.node().attrs));
  return {};
}

// With `none`, what was overwritten has no effect; with `add`, everything has. ONNX leaves open
// which of several updates of one element `none` takes; this build takes the last one, and each of
// them gets the gradient of the element.
std::function<Status(GradientContext&)> scatter_gradient(std::string scatter, std::string gather) {
  return
      [scatter = std::move(scatter), gather = std::move(gather)](GradientContext& ctx) -> Status {
        const std::string reduction = attr_string(ctx.node().attrs, "reduction", "none");
        if (reduction != "none" && reduction != "add") {
          return unimplemented(cat(scatter, " with reduction '", reduction,
                                   "': expected none or add for a gradient"));
        }
        const ValueId dy = ctx.grad(0), indices = ctx.input(1), updates = ctx.input(2);
        Attrs attrs = ctx.node().attrs;
        attrs.erase("reduction");
        if (ctx.needs(2)) ctx.set_grad(2, ctx.emit(gather, {dy, indices}, attrs));
        if (!ctx.needs(0)) return {};
        if (reduction == "add") {
          ctx.set_grad(0, dy);
          return {};
        }
        const ValueId zeros = ctx.emit("Mul", {updates, ctx.scalar(0, ctx.type(updates).dtype)});
        ctx.set_grad(0, ctx.emit(scatter, {dy, indices, zeros}, attrs));
        return {};
      };
}

// --- Range -------------------------------------------------------------------------------------

// The length of a range that is no constant: its limit, if it counts from 0 in steps of 1.
Dim symbolic_length(InferContext& ctx) {
  const auto start = known_sizes(ctx, 0), limit = known_sizes(ctx, 1), delta = known_sizes(ctx, 2);
  const bool counts =
      start && delta && (*start)[0] == Dim::of(0) && (*delta)[0] == Dim::of(1) && limit;
  if (counts && (*limit)[0] && !(*limit)[0]->is_constant()) return *(*limit)[0];
  return Dim::of_symbol(ctx.fresh_symbol());
}

Status infer_number_range(InferContext& ctx) {
  for (int i = 0; i < 3; ++i) {
    if (ctx.shape(i).rank() == 0 || ctx.shape(i) == SymbolicShape(Shape({1}))) continue;
    return ctx.error(cat("expected scalars, input ", i, " is ", ctx.text(ctx.shape(i))));
  }
  const Tensor *start = ctx.constant(0), *limit = ctx.constant(1), *delta = ctx.constant(2);
  if (!start || !limit || !delta) {
    ctx.set_tensor(0, ctx.dtype(0), {symbolic_length(ctx)});
    return {};
  }
  const auto length = range_length(*start, *limit, *delta);
  if (!length) {
    return ctx.error(cat("expected a step other than 0 and at most ", kMostOfRange,
                         " numbers, received ", start->at(0), " to ", limit->at(0), " in steps of ",
                         delta->at(0)));
  }
  ctx.set_tensor(0, ctx.dtype(0), {Dim::of(*length)});
  if (*length > limits::kValueInference) return {};
  Tensor values(ctx.dtype(0), {*length});
  fill_range(values, *start, *delta);
  ctx.set_constant(0, std::move(values));
  return {};
}

// --- Trilu, CumSum, CumProd and TopK -----------------------------------------------------------

Status expect_scalar(const InferContext& ctx, int i, std::string_view name) {
  if (!ctx.has_input(i)) return {};
  for (const Dim dim : ctx.shape(i).dims()) {
    if (!(dim == Dim::of(1)))
      return ctx.error(cat(name, ": expected a scalar, received ", ctx.text(ctx.shape(i))));
  }
  return {};
}

Status infer_trilu(InferContext& ctx) {
  if (ctx.shape(0).rank() < 2) {
    return ctx.error(
        cat("expected matrices, of rank at least 2, received ", ctx.text(ctx.shape(0))));
  }
  LEAT_RETURN_IF_ERROR(expect_scalar(ctx, 1, "k"));
  return infer_same_as_first(ctx);
}

// The same part of the gradient passes.
Status trilu_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs{ctx.grad(0)};
  if (ctx.input(1) != kNone) inputs.push_back(ctx.input(1));
  ctx.set_grad(0, ctx.emit("Trilu", inputs, ctx.node().attrs));
  return {};
}

Status infer_cumulative(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_scalar(ctx, 1, "axis"));
  if (const auto axis = known_ints(ctx, 1))
    LEAT_RETURN_IF_ERROR(normalize_axis(ctx, (*axis)[0], ctx.shape(0).rank()).status());
  return infer_same_as_first(ctx);
}

// Each element counts in the sums behind it: the gradient is the sum in the other direction.
Status cum_sum_gradient(GradientContext& ctx) {
  Attrs attrs = ctx.node().attrs;
  attrs["reverse"] = int64_t{attr_int(attrs, "reverse") == 0};
  ctx.set_grad(0, ctx.emit("CumSum", {ctx.grad(0), ctx.input(1)}, attrs));
  return {};
}

Status cum_prod_gradient(GradientContext& ctx) {
  ctx.set_grad(
      0, ctx.emit("leat.CumProdGrad", {ctx.input(0), ctx.input(1), ctx.grad(0)}, ctx.node().attrs));
  return {};
}

Status infer_top_k(InferContext& ctx) {
  const SymbolicShape& x = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const int axis,
                        normalize_axis(ctx, attr_int(ctx.attrs(), "axis"), x.rank()));
  LEAT_RETURN_IF_ERROR(expect_scalar(ctx, 1, "K"));
  SymbolicShape out = x;
  const auto k = known_ints(ctx, 1);
  if (k) {
    const bool fits = (*k)[0] >= 0 && (!x[axis].is_constant() || (*k)[0] <= x[axis].factor);
    if (!fits)
      return ctx.error(cat("K: expected 0 to ", x[axis].factor, ", the size of axis ", axis,
                           ", received ", (*k)[0]));
    out.set(axis, Dim::of((*k)[0]));
  } else {
    out.set(axis, Dim::of_symbol(ctx.fresh_symbol()));
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  if (ctx.wants_output(1)) ctx.set_tensor(1, DType::i64, out);
  return {};
}

Status top_k_gradient(GradientContext& ctx) {
  const ValueId shape = shape_or_like(ctx, ctx.input(0)), indices = ctx.optional_output(1);
  ctx.set_grad(0, ctx.emit("leat.GatherElementsGrad", {ctx.grad(0), indices, shape},
                           {{"axis", attr_int(ctx.node().attrs, "axis", -1)}}));
  return {};
}

void add_scatter_ops(Catalogue& catalogue) {
  catalogue.add(Op("ScatterElements", 18)
                    .input("data", "T")
                    .input("indices", "Tind")
                    .input("updates", "T")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .type("Tind", kIndexTypes)
                    .attr("axis", int64_t{0})
                    .attr("reduction", std::string("none"))
                    .infer(infer_scatter_elements)
                    .gradient(scatter_gradient("ScatterElements", "GatherElements")));
  catalogue.add(Op("ScatterND", 18)
                    .input("data", "T")
                    .input("indices", "int64")
                    .input("updates", "T")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .attr("reduction", std::string("none"))
                    .infer(infer_scatter_nd)
                    .gradient(scatter_gradient("ScatterND", "GatherND")));
  catalogue.add(Op("GatherND", 13)
                    .input("data", "T")
                    .input("indices", "int64")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .attr("batch_dims", int64_t{0})
                    .infer(infer_gather_nd)
                    .gradient(gather_nd_gradient));
  catalogue.add(Op("leat.GatherNDGrad")
                    .input("dY", "T")
                    .input("indices", "int64")
                    .input("shape", "S")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .type("S", kShapeOrLike)
                    .attr("batch_dims", int64_t{0})
                    .infer(infer_gather_nd_grad));
}

// An op that folds the elements of each line up to every element.
Op cumulative(const char* name, int since) {
  return Op(name, since)
      .input("x", "T")
      .input("axis", "Taxis")
      .output("y", "T")
      .type("T", kNumbers)
      .type("Taxis", kIndexTypes)
      .attr("exclusive", int64_t{0})
      .attr("reverse", int64_t{0})
      .infer(infer_cumulative);
}

}  // namespace

void register_scatter_ops(Catalogue& catalogue) {
  add_scatter_ops(catalogue);
  catalogue.add(Op("Range", 11)
                    .input("start", "T")
                    .input("limit", "T")
                    .input("delta", "T")
                    .output("output", "T")
                    .type("T", kNumbers)
                    .attr("stash_type", int64_t{1})  // the numbers are computed in doubles
                    .infer(infer_number_range));
  catalogue.add(Op("Trilu", 14)
                    .input("input", "T")
                    .optional_input("k", "int64")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .attr("upper", int64_t{1})
                    .infer(infer_trilu)
                    .gradient(trilu_gradient));
  catalogue.add(cumulative("CumSum", 14).gradient(cum_sum_gradient));
  catalogue.add(cumulative("CumProd", 26).gradient(cum_prod_gradient));
  catalogue.add(Op("leat.CumProdGrad", 1)
                    .input("x", "T")
                    .input("axis", "Taxis")
                    .input("dy", "T")
                    .output("dx", "T")
                    .type("T", kFloats)
                    .type("Taxis", kIndexTypes)
                    .attr("exclusive", int64_t{0})
                    .attr("reverse", int64_t{0})
                    .infer(infer_cumulative));
  catalogue.add(Op("TopK", 11)
                    .input("X", "T")
                    .input("K", "int64")
                    .output("Values", "T")
                    .optional_output("Indices", "int64")
                    .type("T", kNumbers)
                    .attr("axis", int64_t{-1})
                    .attr("largest", int64_t{1})
                    .attr("sorted", int64_t{1})
                    .infer(infer_top_k)
                    .gradient(top_k_gradient));
}

}  // namespace leat
