// CPU kernels of ops/definitions/rows.cc.
#include <algorithm>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/row_sum.h"

namespace leat {
namespace {

// Phase 0 sorts; phase 1 writes blocks of rows: sums for touched rows, zeros for the others.
template <typename T>
class SumRowsKernel final : public Kernel {
 public:
  SumRowsKernel(RowSum sum, int64_t rows)
      : sum_(std::move(sum)), rows_(rows), block_(default_tile_rows(rows, sum_.width())) {}
  int phases() const override { return 2; }
  int tiles(int phase) const override { return phase == 0 ? 1 : tile_count(rows_, block_); }
  size_t workspace_bytes() const override { return sum_.workspace_bytes(); }
  size_t scratch_bytes() const override { return sum_.scratch_bytes(); }

  // Each tile writes its block of rows completely. A touched row is in one block only, so its sum
  // is computed once.
  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 0) return sum_.sort(context);
    const int64_t begin = tile * block_, end = std::min(rows_, begin + block_);
    T* dense = context.out<T>(0);
    std::fill(dense + begin * sum_.width(), dense + end * sum_.width(), T{});
    for (int64_t i = first_from(context, begin);
         i < sum_.touched(context) && sum_.row(context, i) < end; ++i) {
      const T* sum = sum_.template sum<T>(context, i);
      std::copy_n(sum, sum_.width(), dense + sum_.row(context, i) * sum_.width());
    }
    return Progress::done;
  }

 private:
  // The index of the first touched row that is at or after `row`.
  int64_t first_from(const KernelContext& context, int64_t row) const {
    int64_t low = 0, high = sum_.touched(context);
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      (sum_.row(context, middle) < row ? low : high) =
          sum_.row(context, middle) < row ? middle + 1 : middle;
    }
    return low;
  }
  RowSum sum_;
  int64_t rows_, block_;
};

template <typename T>
std::unique_ptr<Kernel> sum_rows(RowSum sum, int64_t rows) {
  return std::make_unique<SumRowsKernel<T>>(std::move(sum), rows);
}

Result<std::unique_ptr<Kernel>> make_sum_rows(const KernelSetup& setup) {
  const Shape& out = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(RowSum sum, RowSum::make(setup, 0, 1, out[0], out.elements(1, out.rank())));
  switch (setup.output(0).dtype) {
    case DType::f64:
      return sum_rows<double>(std::move(sum), out[0]);
    case DType::f16:
      return sum_rows<Half>(std::move(sum), out[0]);
    case DType::bf16:
      return sum_rows<BFloat16>(std::move(sum), out[0]);
    default:
      return sum_rows<float>(std::move(sum), out[0]);
  }
}

}  // namespace

void add_rows_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.SumRows", "cpu", make_sum_rows);
}

}  // namespace leat
