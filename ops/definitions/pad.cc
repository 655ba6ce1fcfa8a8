// Pad. The mode "constant" copies with strides; "reflect", "edge" and "wrap" use a table for each
// axis that maps an output index to an input index.
#include "ops/definitions/pad.h"

#include <algorithm>
#include <array>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

// The margins from operands `pads` and `axes` of Pad or PadGrad; nothing if their values are not
// known.
Result<std::optional<PadMargins>> infer_margins(const InferContext& ctx, int rank, int pads_input,
                                                int axes_input) {
  const bool has_axes = ctx.has_input(axes_input);
  const auto pads = known_ints(ctx, pads_input);
  if (!pads || (has_axes && !ctx.constant(axes_input))) return std::optional<PadMargins>();
  const auto named = has_axes ? *known_ints(ctx, axes_input) : axes_to_pad(rank);
  LEAT_ASSIGN_OR_RETURN(const std::vector<int> axes, normalize_axes(ctx, named, rank));
  if (pads->size() != 2 * axes.size()) {
    return ctx.error(cat("pads: expected ", 2 * axes.size(),
                         " values, two for each axis, received ", pads->size()));
  }
  for (int64_t pad : *pads) {
    if (pad < -limits::kElements || pad > limits::kElements) {
      return ctx.error(cat("pads: expected at most ", limits::kElements, ", received ", pad));
    }
  }
  return std::optional(pad_margins(*pads, axes, rank));
}

// Checks that an axis has enough elements for the margins of its mode.
Status check_mode(const InferContext& ctx, const std::string& mode, int64_t size, int64_t before,
                  int64_t after) {
  const int64_t most = std::max(before, after);
  if (mode == "constant" || most <= 0 || (size > 0 && mode != "reflect") || most < size) return {};
  return ctx.error(cat("pads: expected less than the axis' size ", size, " in mode ", mode,
                       ", received ", most));
}

Status infer_pad(InferContext& ctx) {
  const std::string mode = attr_string(ctx.attrs(), "mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return ctx.error(cat("mode: expected constant, reflect, edge or wrap, received '", mode, "'"));
  }
  if (ctx.has_input(2)) {
    for (Dim dim : ctx.shape(2).dims()) {
      if (!(dim == Dim::of(1)))
        return ctx.error(
            cat("constant_value: expected a scalar, received ", ctx.text(ctx.shape(2))));
    }
  }
  // An axis without margins keeps its size, even if it is a symbol. All others are new symbols
  // unless the margins and the size are known.
  const SymbolicShape& in = ctx.shape(0);
  LEAT_ASSIGN_OR_RETURN(const auto m, infer_margins(ctx, in.rank(), 1, 3));
  SymbolicShape out = in;
  for (int d = 0; d < in.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    if (m && m->before[k] == 0 && m->after[k] == 0) continue;
    out.set(d, Dim::of_symbol(ctx.fresh_symbol()));
    if (!m || !in[d].is_constant()) continue;
    LEAT_RETURN_IF_ERROR(check_mode(ctx, mode, in[d].factor, m->before[k], m->after[k]));
    const auto more = checked_add(m->before[k], m->after[k]);
    const auto size = more ? checked_add(*more, in[d].factor) : std::nullopt;
    if (!size || *size < 0) {
      return ctx.error(cat("pads: axis ", d, " of ", ctx.text(in), " has no size with ",
                           m->before[k], " before and ", m->after[k], " after"));
    }
    out.set(d, Dim::of(*size));
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// The shape is that of the data. The margins are only checked here.
Status infer_pad_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, infer_shape_or_like(ctx, 1));
  LEAT_ASSIGN_OR_RETURN(const auto m, infer_margins(ctx, shape.rank(), 2, 3));
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

// The gradient of a constant margin is cut off: it is a Pad by the negative margins.
Status pad_gradient(GradientContext& ctx) {
  if (ctx.needs(2)) return ctx.error("constant_value has no gradient");
  const std::string mode = attr_string(ctx.node().attrs, "mode", "constant");
  if (mode == "constant") {
    const ValueId back = ctx.emit("Neg", {ctx.input(1)});
    ctx.set_grad(0, ctx.emit("Pad", {ctx.grad(0), back, kNone, ctx.input(3)}));
    return {};
  }
  const ValueId shape = shape_or_like(ctx, ctx.input(0));
  ctx.set_grad(0, ctx.emit("leat.PadGrad", {ctx.grad(0), shape, ctx.input(1), ctx.input(3)},
                           {{"mode", mode}}));
  return {};
}

}  // namespace

void register_pad_ops(Catalogue& catalogue) {
  catalogue.add(Op("Pad", 19)
                    .input("data", "T")
                    .input("pads", "int64")
                    .optional_input("constant_value", "T")
                    .optional_input("axes", "Tind")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .type("Tind", kIndexTypes)
                    .attr("mode", std::string("constant"))
                    .infer(infer_pad)
                    .gradient(pad_gradient));
  catalogue.add(Op("leat.PadGrad")
                    .input("dY", "T")
                    .input("shape", "S")
                    .input("pads", "int64")
                    .optional_input("axes", "Tind")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .type("S", kShapeOrLike)
                    .type("Tind", kIndexTypes)
                    .attr_required("mode", "string")
                    .infer(infer_pad_grad));
}

Result<PadMargins> kernel_margins(const KernelSetup& setup, const Shape& inner, const Shape& outer,
                                  int pads_input, int axes_input) {
  // `inner` is the shape without the pads, `outer` the shape with them.
  const bool has_axes = setup.types.has_input(axes_input);
  const auto pads = known_ints(setup, pads_input);
  const auto named =
      has_axes ? known_ints(setup, axes_input) : std::optional(axes_to_pad(inner.rank()));
  if (!pads || !named)
    return unimplemented(cat(setup.subject, ": expected pads that are known at compile time"));
  std::vector<int> axes;
  for (int64_t axis : *named)
    axes.push_back(static_cast<int>(axis < 0 ? axis + inner.rank() : axis));
  const PadMargins m = pad_margins(*pads, axes, inner.rank());
  bool fits = outer.rank() == inner.rank();
  for (int d = 0; fits && d < inner.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    // Only the mode "constant" can pad an axis of size 0, because the others copy elements of it.
    fits = inner[d] + m.before[k] + m.after[k] == outer[d] &&
           (inner[d] > 0 || outer[d] == 0 || attr_string(setup.attrs(), "mode") == "constant");
  }
  if (!fits) return invalid_argument(cat(setup.subject, ": ", inner, " is not padded to ", outer));
  return m;
}

int64_t shown_index(const std::string& mode, int64_t i, int64_t size) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
  // The remainder is made positive, because i is negative before the input's start.
  if (mode == "wrap") return ((i % size) + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);  // reflect: ... 2 1 0 1 2 ...
  const int64_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

}  // namespace leat
