// Pad: with a constant as strided copies, by reflection, edge or wrapping through a table for each
// axis that says which input index an output index shows.
#include <algorithm>
#include <array>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

// Elements before and after each axis; negative ones cut.
struct Margins {
  std::vector<int64_t> before, after;
};

// From the values of `pads` and `axes` (normalized). REQUIRES: pads.size() == 2 * axes.size().
Margins margins(const std::vector<int64_t>& pads, const std::vector<int>& axes, int rank) {
  Margins m{std::vector<int64_t>(static_cast<size_t>(rank)),
            std::vector<int64_t>(static_cast<size_t>(rank))};
  for (size_t i = 0; i < axes.size(); ++i) {
    m.before[static_cast<size_t>(axes[i])] = pads[i];
    m.after[static_cast<size_t>(axes[i])] = pads[i + axes.size()];
  }
  return m;
}

std::vector<int64_t> all_axes(int rank) {
  std::vector<int64_t> axes;
  for (int d = 0; d < rank; ++d) axes.push_back(d);
  return axes;
}

// Operands `pads` and `axes` of Pad or PadGrad; empty if their values are not known.
Result<std::optional<Margins>> infer_margins(const InferContext& ctx, int rank, int pads_input,
                                             int axes_input) {
  const bool has_axes = ctx.has_input(axes_input);
  const auto pads = known_ints(ctx, pads_input);
  if (!pads || (has_axes && !ctx.constant(axes_input))) return std::optional<Margins>();
  const auto named = has_axes ? *known_ints(ctx, axes_input) : all_axes(rank);
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
  return std::optional(margins(*pads, axes, rank));
}

// What a mode needs of an axis: something to show where it pads.
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

// Checked against the shapes, which inference may not have known.
Result<Margins> kernel_margins(const KernelSetup& setup, const Shape& inner, const Shape& outer,
                               int pads_input, int axes_input) {
  const bool has_axes = setup.types.has_input(axes_input);
  const auto pads = known_ints(setup, pads_input);
  const auto named =
      has_axes ? known_ints(setup, axes_input) : std::optional(all_axes(inner.rank()));
  if (!pads || !named)
    return unimplemented(cat(setup.subject, ": expected pads that are known at compile time"));
  std::vector<int> axes;
  for (int64_t axis : *named)
    axes.push_back(static_cast<int>(axis < 0 ? axis + inner.rank() : axis));
  const Margins m = margins(*pads, axes, inner.rank());
  bool fits = outer.rank() == inner.rank();
  for (int d = 0; fits && d < inner.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    fits = inner[d] + m.before[k] + m.after[k] == outer[d] &&
           (inner[d] > 0 || outer[d] == 0 || attr_string(setup.attrs(), "mode") == "constant");
  }
  if (!fits) return invalid_argument(cat(setup.subject, ": ", inner, " is not padded to ", outer));
  return m;
}

Result<std::unique_ptr<Kernel>> make_constant_pad(const KernelSetup& setup, const Margins& m) {
  const Shape &in = setup.input(0).shape, &out = setup.output(0).shape;
  const auto in_steps = row_major_steps(in), out_steps = row_major_steps(out);
  StridedCopy copy;
  for (int d = 0; d < in.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    const int64_t cut_before = std::max<int64_t>(0, -m.before[k]),
                  cut_after = std::max<int64_t>(0, -m.after[k]);
    copy.add_axis(std::max<int64_t>(0, in[d] - cut_before - cut_after), in_steps[k], out_steps[k]);
    copy.in_offset += cut_before * in_steps[k];
    copy.out_offset += std::max<int64_t>(0, m.before[k]) * out_steps[k];
  }
  return make_copy_kernel(setup, {{copy}, 0, 2});
}

// --- tables ----------------------------------------------------------------------------------

// The input index that output index `i` shows.
int64_t shown_index(const std::string& mode, int64_t i, int64_t size) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "wrap") return ((i % size) + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);  // reflect: ... 2 1 0 1 2 ...
  const int64_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

// Of each axis: where, in elements of the input, an output index points.
struct Tables {
  Shape outer;
  std::array<std::vector<int64_t>, kMaxRank> offsets;

  Tables(const std::string& mode, const Margins& m, const Shape& inner, const Shape& outer_shape)
      : outer(outer_shape) {
    const auto steps = row_major_steps(inner);
    for (int d = 0; d < outer.rank(); ++d) {
      const auto k = static_cast<size_t>(d);
      for (int64_t i = 0; i < outer[d]; ++i) {
        offsets[k].push_back(shown_index(mode, i - m.before[k], inner[d]) * steps[k]);
      }
    }
  }

  // f(input offset, output offset) for every element, in the order of the output.
  template <typename F>
  void each(F f) const {
    std::array<int64_t, kMaxRank> index{};
    for (int64_t o = 0; o < outer.elements(); ++o) {
      int64_t in = 0;
      for (int d = 0; d < outer.rank(); ++d)
        in += offsets[static_cast<size_t>(d)][static_cast<size_t>(index[static_cast<size_t>(d)])];
      f(in, o);
      for (int d = outer.rank() - 1; d >= 0; --d) {
        if (++index[static_cast<size_t>(d)] < outer[d]) break;
        index[static_cast<size_t>(d)] = 0;
      }
    }
  }
};

Result<std::unique_ptr<Kernel>> make_pad(const KernelSetup& setup) {
  const Shape &in = setup.input(0).shape, &out = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const Margins m, kernel_margins(setup, in, out, 1, 3));
  const std::string mode = attr_string(setup.attrs(), "mode");
  if (mode == "constant") return make_constant_pad(setup, m);
  const DType dtype = setup.output(0).dtype;
  return make_kernel([dtype, tables = Tables(mode, m, in, out)](KernelContext& context) {
    dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      const T* x = context.in<T>(0);
      T* y = context.out<T>(0);
      tables.each([&](int64_t i, int64_t o) { y[o] = x[i]; });
    });
    return Progress::done;
  });
}

// Every output element adds to the input element that it shows, in the order of the output.
Result<std::unique_ptr<Kernel>> make_pad_grad(const KernelSetup& setup) {
  const Shape &outer = setup.input(0).shape, &inner = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const Margins m, kernel_margins(setup, inner, outer, 2, 3));
  const DType dtype = setup.output(0).dtype;
  const int64_t elements = inner.elements();
  return make_kernel(
      [dtype, elements, tables = Tables(attr_string(setup.attrs(), "mode"), m, inner, outer)](
          KernelContext& context) {
        dispatch_dtype(dtype, [&](auto tag) {
          using T = decltype(tag);
          if constexpr (!std::is_same_v<T, bool>) {
            const T* dy = context.in<T>(0);
            T* dx = context.out<T>(0);
            std::fill_n(dx, elements, T{});
            tables.each([&](int64_t i, int64_t o) {
              dx[i] = elementwise::store<T>(elementwise::load(dx[i]) + elementwise::load(dy[o]));
            });
          }
        });
        return Progress::done;
      });
}

Status infer_pad_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, infer_shape_or_like(ctx, 1));
  LEAT_ASSIGN_OR_RETURN(const auto m, infer_margins(ctx, shape.rank(), 2, 3));
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

// A constant margin is cut off again: padding by the negative.
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
                    .gradient(pad_gradient)
                    .kernel("cpu", make_pad));
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
                    .infer(infer_pad_grad)
                    .kernel("cpu", make_pad_grad));
}

}  // namespace leat
