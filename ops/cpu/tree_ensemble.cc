// The CPU kernel of ops/definitions/tree_ensemble.cc. A tile is a few rows.
#include "ops/definitions/tree_ensemble.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

template <typename T>
class TreeEnsembleKernel final : public Kernel {
 public:
  TreeEnsembleKernel(TreeEnsemble trees, const Shape& x)
      : trees_(std::move(trees)), rows_(x[0]), features_(x[1]) {}
  int tiles(int) const override { return tile_count(rows_, kRowsOfTile); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(trees_.features() + trees_.targets()) * sizeof(double);
  }
  Progress run(KernelContext& context, int, int tile) override {
    auto* const row = reinterpret_cast<double*>(context.scratch);
    double* const scores = row + trees_.features();
    const int64_t first = tile * kRowsOfTile;
    for (int64_t i = first; i < std::min(rows_, first + kRowsOfTile); ++i) {
      const T* const x = context.in<T>(0) + i * features_;
      for (int64_t f = 0; f < trees_.features(); ++f)
        row[f] = static_cast<double>(load_as_compute(x[f]));
      trees_.score(row, scores, kLargest);
      T* const y = context.out<T>(0) + i * trees_.targets();
      for (int64_t t = 0; t < trees_.targets(); ++t)
        y[t] = store_from_compute<T>(static_cast<Compute<T>>(scores[t]));
    }
    return Progress::done;
  }

 private:
  static constexpr int64_t kRowsOfTile = 16;
  static constexpr double kLargest = DTypeOf<T>::value == DType::f64    ? 0x1.fffffffffffffp1023
                                     : DTypeOf<T>::value == DType::f16  ? 65504
                                     : DTypeOf<T>::value == DType::bf16 ? 0x1.fep127
                                                                        : 0x1.fffffep127;
  const TreeEnsemble trees_;
  const int64_t rows_, features_;
};

Result<std::unique_ptr<Kernel>> make_tree_ensemble(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(TreeEnsemble trees, TreeEnsemble::read(setup.attrs()));
  const Shape& x = setup.input(0).shape;
  if (x[1] < trees.features())
    return invalid_argument(cat(setup.subject, ": X: expected at least ", trees.features(),
                                " features, received ", x.to_string()));
  return dispatch_float(setup.input(0).dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<TreeEnsembleKernel<decltype(zero)>>(std::move(trees), x);
  });
}

}  // namespace

void add_tree_ensemble_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.TreeEnsemble", "cpu", make_tree_ensemble);
}

}  // namespace leat
