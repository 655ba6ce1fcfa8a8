#include "ops/cpu/matmul_packed.h"

#include <algorithm>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/gemm_avx512.h"
#include "ops/cpu/matmul_tiles.h"

namespace leat {
namespace {

// A box of Y has at most so many rows: each of them uses a piece of B once that was copied for all.
constexpr int64_t kBoxRows = 128;

// One tile computes its boxes, item after item. The scratch memory has a box as floats, and then
// that of the product.
class PackedProductKernel final : public Kernel {
 public:
  PackedProductKernel(Product product, std::vector<ProductTile> tiles, DType dtype)
      : p_(std::move(product)), tiles_(std::move(tiles)), dtype_(dtype) {
    for (const ProductTile& tile : tiles_) {
      rows_ = std::max(rows_, std::min(kBoxRows, tile.rows));
      columns_ = std::max(columns_, std::min(kProductTileColumns, tile.columns));
    }
    box_bytes_ = align_up(static_cast<size_t>(rows_ * columns_) * sizeof(float), 64);
  }

  int tiles(int) const override { return static_cast<int>(tiles_.size()); }
  size_t scratch_bytes() const override { return box_bytes_ + packed_gemm_scratch_bytes(rows_); }
  Progress run(KernelContext& context, int, int index) override {
    const ProductTile& tile = tiles_[static_cast<size_t>(index)];
    for (int64_t item = tile.item; item < tile.item + tile.items; ++item) {
      for (int64_t row = 0; row < tile.rows; row += rows_) {
        for (int64_t column = 0; column < tile.columns; column += columns_) {
          compute(context, {item, 1, tile.row + row, std::min(rows_, tile.rows - row),
                            tile.column + column, std::min(columns_, tile.columns - column)});
        }
      }
    }
    return Progress::done;
  }

 private:
  void compute(const KernelContext& context, const ProductTile& box) const {
    const auto item = static_cast<size_t>(box.item);
    const uint16_t* a =
        context.in<uint16_t>(0) + p_.a_offsets[item] + (p_.trans_a ? box.row : box.row * p_.lda);
    const uint16_t* b = context.in<uint16_t>(1) + p_.b_offsets[item] +
                        (p_.trans_b ? box.column * p_.ldb : box.column);
    auto* y = reinterpret_cast<float*>(context.scratch);
    packed_gemm({p_.trans_a, p_.trans_b, box.rows, box.columns, p_.k, p_.lda, p_.ldb, box.columns},
                dtype_, a, b, y, context.scratch + box_bytes_);
    const float* c =
        p_.has_c ? context.in<float>(2) + box.row * p_.c_row + box.column * p_.c_column : nullptr;
    finish_box(p_, box, c, y, box.columns, true);
    uint16_t* to = context.out<uint16_t>(0) + (box.item * p_.m + box.row) * p_.n + box.column;
    for (int64_t i = 0; i < box.rows; ++i)
      narrow(dtype_, y + i * box.columns, to + i * p_.n, box.columns);
  }

  Product p_;
  std::vector<ProductTile> tiles_;
  DType dtype_;
  int64_t rows_ = 1, columns_ = 1;  // of the largest box
  size_t box_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_packed_product_kernel(const KernelSetup& setup,
                                                           const Product& product) {
  if (!has_packed_gemm()) return unimplemented(cat(setup.subject, ": no AVX-512"));
  const DType dtype = setup.input(0).dtype;
  // C comes as float.
  const KernelFactory factory = [&](const KernelSetup& inner) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<PackedProductKernel>(
        product, product_tiles(product, inner.tile_rows, {kBoxRows, true}), dtype));
  };
  return compute_in_f32(setup, factory, {.rounded_outputs = 1, .kept_inputs = 3});
}

}  // namespace leat
