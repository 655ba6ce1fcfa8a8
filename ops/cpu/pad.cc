// CPU kernels of ops/definitions/pad.cc.
#include "ops/definitions/pad.h"

#include <algorithm>
#include <array>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

// The margins, checked against concrete shapes: inference may not have known them.
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

// Fills the output with input 2, the constant, and copies the input into it. A negative pad cuts
// elements off instead.
Result<std::unique_ptr<Kernel>> make_constant_pad(const KernelSetup& setup, const PadMargins& m) {
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
// The modes edge, wrap and reflect copy from an index that is computed once for each axis.

// The input index that output index `i` copies.
int64_t shown_index(const std::string& mode, int64_t i, int64_t size) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
  // The remainder is made positive, because i is negative before the input's start.
  if (mode == "wrap") return ((i % size) + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);  // reflect: ... 2 1 0 1 2 ...
  const int64_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

// For each axis: the offset in the input, in elements, that each output index copies.
struct Tables {
  Shape outer;
  std::array<std::vector<int64_t>, kMaxRank> offsets;

  Tables(const std::string& mode, const PadMargins& m, const Shape& inner, const Shape& outer_shape)
      : outer(outer_shape) {
    const auto steps = row_major_steps(inner);
    for (int d = 0; d < outer.rank(); ++d) {
      const auto k = static_cast<size_t>(d);
      for (int64_t i = 0; i < outer[d]; ++i) {
        offsets[k].push_back(shown_index(mode, i - m.before[k], inner[d]) * steps[k]);
      }
    }
  }

  // Calls f(input offset, output offset) for every element, in the order of the output.
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
  LEAT_ASSIGN_OR_RETURN(const PadMargins m, kernel_margins(setup, in, out, 1, 3));
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

// Every output element is added to the input element that it copies, in the order of the output.
Result<std::unique_ptr<Kernel>> make_pad_grad(const KernelSetup& setup) {
  const Shape &outer = setup.input(0).shape, &inner = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const PadMargins m, kernel_margins(setup, inner, outer, 2, 3));
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

}  // namespace

void add_pad_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Pad", "cpu", make_pad);
  catalogue.add_kernel("leat.PadGrad", "cpu", make_pad_grad);
}

}  // namespace leat
