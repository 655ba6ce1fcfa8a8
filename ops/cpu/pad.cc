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

// The modes edge, wrap and reflect copy from an index that is computed once for each axis.

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
  const std::string mode = attr_string(setup.attrs(), "mode");
  if (mode == "constant") return copy_kernel<constant_pad_copies>(setup);
  LEAT_ASSIGN_OR_RETURN(const PadMargins m, kernel_margins(setup, in, out, 1, 3));
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
