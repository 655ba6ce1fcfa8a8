#include "ops/cpu/matmul_bf16.h"

#include <algorithm>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/library_failure.h"
#include "ops/cpu/matmul_tiles.h"
#include "ops/cpu/transpose16.h"

namespace leat {
namespace {

constexpr int64_t kRowsOfCall = 64;  // at most

// `rows` rows of op(A), one after the other, from the columns of a transposed A.
void transpose_rows(const BFloat16* a, int64_t lda, BFloat16* to, int64_t rows, int64_t k) {
  const auto* from = reinterpret_cast<const uint16_t*>(a);
  if (transpose_avx512(from, lda, reinterpret_cast<uint16_t*>(to), k, rows, k)) return;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < k; ++j) to[i * k + j] = a[j * lda + i];
  }
}

// The library's products for the boxes of Y: `rows` by `columns`, and those at the ends.
class BoxProducts {
 public:
  // Makes the products of a tiling by boxes. Their number is at most 4. `padded`: the last rows are
  // computed as `rows`. The library has no fast product of a transposed A: a kernel transposes it,
  // and the products take rows of op(A) that are contiguous.
  Status make(const Product& p, int64_t rows, int64_t columns, bool padded, bool packs) {
    rows_ = rows;
    columns_ = columns;
    const int64_t last_rows = padded || p.m % rows == 0 ? rows : p.m % rows;
    const int64_t last_columns = p.n % columns == 0 ? columns : p.n % columns;
    for (int64_t m : {rows, last_rows}) {
      for (int64_t n : {columns, last_columns}) {
        LEAT_ASSIGN_OR_RETURN(
            auto made,
            onednn::make_bf16_product(
                {false, p.trans_b, m, n, p.k, p.trans_a ? p.k : p.lda, p.ldb, n}, packs));
        scratch_bytes_ = std::max(scratch_bytes_, made->scratch_bytes());
        packed_bytes_ = std::max(packed_bytes_, align_up(made->packed_bytes(), 64));
        products_.push_back(std::move(made));
      }
    }
    return {};
  }
  const onednn::Bf16Product& of(int64_t rows, int64_t columns) const {
    const size_t row = rows == rows_ ? 0 : 2, column = columns == columns_ ? 0 : 1;
    return *products_[row + column];
  }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  size_t packed_bytes() const { return packed_bytes_; }  // of one block of columns

 private:
  int64_t rows_ = 1, columns_ = 1;
  std::vector<std::unique_ptr<onednn::Bf16Product>> products_;
  size_t scratch_bytes_ = 0, packed_bytes_ = 0;
};

// The scratch memory has the box of Y as floats, the rows of A if they are padded or transposed
// there, and that of the library. If one B serves all rows, the workspace has its packed blocks,
// and op(A) if A is transposed.
class Bf16ProductKernel final : public Kernel {
 public:
  Bf16ProductKernel(Product product, std::vector<ProductTile> tiles, BoxProducts boxes, bool pads)
      : p_(std::move(product)),
        tiles_(std::move(tiles)),
        boxes_(std::move(boxes)),
        pads_(pads),
        packs_(boxes_.packed_bytes() > 0),
        box_bytes_(
            align_up(static_cast<size_t>(boxes_.rows() * boxes_.columns()) * sizeof(float), 64)),
        strip_bytes_(align_up(static_cast<size_t>(boxes_.rows() * p_.k) * sizeof(BFloat16), 64)) {}

  int phases() const override { return packs_ ? 2 : 1; }
  int row_phase() const override { return phases() - 1; }
  int tiles(int phase) const override {
    return phase < row_phase() ? blocks() + strips() : static_cast<int>(tiles_.size());
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(blocks()) * boxes_.packed_bytes() +
           static_cast<size_t>(strips()) * strip_bytes_;
  }
  size_t scratch_bytes() const override {
    return box_bytes_ + rows_bytes() + boxes_.scratch_bytes();
  }

  Progress run(KernelContext& context, int phase, int index) override {
    const bool ok = phase < row_phase() ? prepare(context, index)
                                        : compute(context, tiles_[static_cast<size_t>(index)]);
    return ok ? Progress::done : library_failed(context, "multiply");
  }

 private:
  // The number of blocks of columns.
  int blocks() const { return tile_count(p_.n, boxes_.columns()); }
  int64_t width(int64_t column) const { return std::min(boxes_.columns(), p_.n - column); }
  const BFloat16* b_at(const KernelContext& context, int64_t item, int64_t column) const {
    return context.in<BFloat16>(1) + p_.b_offsets[static_cast<size_t>(item)] +
           (p_.trans_b ? column * p_.ldb : column);
  }
  std::byte* packed(const KernelContext& context, int64_t column) const {
    return context.workspace +
           static_cast<size_t>(column / boxes_.columns()) * boxes_.packed_bytes();
  }

  // Strips of op(A) that phase 0 makes, each with the rows of a box.
  int strips() const { return packs_ && p_.trans_a ? tile_count(p_.m, boxes_.rows()) : 0; }
  BFloat16* strip(const KernelContext& context, int64_t row) const {
    return reinterpret_cast<BFloat16*>(context.workspace +
                                       static_cast<size_t>(blocks()) * boxes_.packed_bytes() +
                                       static_cast<size_t>(row / boxes_.rows()) * strip_bytes_);
  }
  // Rows of A in the scratch memory.
  size_t rows_bytes() const { return pads_ || (p_.trans_a && !packs_) ? strip_bytes_ : 0; }

  // A tile of phase 0.
  bool prepare(const KernelContext& context, int index) const {
    if (index < blocks()) {
      const int64_t column = index * boxes_.columns();
      return boxes_.of(boxes_.rows(), width(column))
          .pack(b_at(context, 0, column), packed(context, column), context.scratch);
    }
    const int64_t row = (index - blocks()) * boxes_.rows();
    transpose_rows(context.in<BFloat16>(0) + p_.a_offsets[0] + row, p_.lda, strip(context, row),
                   std::min(boxes_.rows(), p_.m - row), p_.k);
    return true;
  }

  // `rows` rows of op(A) as the products take them.
  const BFloat16* rows_of(const KernelContext& context, int64_t item, int64_t row,
                          int64_t rows) const {
    if (strips() > 0) return strip(context, row);
    const BFloat16* a = context.in<BFloat16>(0) + p_.a_offsets[static_cast<size_t>(item)];
    auto* copy = reinterpret_cast<BFloat16*>(context.scratch + box_bytes_);
    if (p_.trans_a) {
      transpose_rows(a + row, p_.lda, copy, rows, p_.k);
      return copy;
    }
    a += row * p_.lda;
    if (!pads_ || rows == boxes_.rows()) return a;
    // Behind the rows are zeros.
    std::copy_n(a, rows * p_.k, copy);
    std::fill(copy + rows * p_.k, copy + boxes_.rows() * p_.k, BFloat16{});
    return copy;
  }

  bool compute(const KernelContext& context, const ProductTile& tile) const {
    const int64_t end = tile.row + tile.rows;
    for (int64_t item = tile.item; item < tile.item + tile.items; ++item) {
      for (int64_t row = tile.row; row < end; row += boxes_.rows()) {
        const int64_t rows = std::min(boxes_.rows(), end - row);
        const BFloat16* a = rows_of(context, item, row, rows);
        for (int64_t column = tile.column; column < tile.column + tile.columns;
             column += boxes_.columns()) {
          if (!compute_box(context, a, {item, 1, row, rows, column, width(column)})) return false;
        }
      }
    }
    return true;
  }

  bool compute_box(const KernelContext& context, const BFloat16* a, const ProductTile& box) const {
    auto* y = reinterpret_cast<float*>(context.scratch);
    const void* b = packs_ ? static_cast<const void*>(packed(context, box.column))
                           : b_at(context, box.item, box.column);
    const auto& product = boxes_.of(pads_ ? boxes_.rows() : box.rows, box.columns);
    if (!product.run(a, b, y, context.scratch + box_bytes_ + rows_bytes())) return false;
    const float* c =
        p_.has_c ? context.in<float>(2) + box.row * p_.c_row + box.column * p_.c_column : nullptr;
    finish_box(p_, box, c, y, box.columns, true);
    BFloat16* to = context.out<BFloat16>(0) + (box.item * p_.m + box.row) * p_.n + box.column;
    for (int64_t i = 0; i < box.rows; ++i) narrow(y + i * box.columns, to + i * p_.n, box.columns);
    return true;
  }

  Product p_;
  std::vector<ProductTile> tiles_;
  BoxProducts boxes_;
  bool pads_, packs_;
  size_t box_bytes_, strip_bytes_;  // of a strip: the rows of a box
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_bf16_product_kernel(const KernelSetup& setup,
                                                         const Product& product) {
  if (product.m == 0 || product.n == 0 || product.k == 0 || product.items() == 0)
    return unimplemented(cat(setup.subject, ": an empty product"));
  // The size of a box does not depend on a chain. Only rows that a chain may cut are padded; then A
  // is not transposed, and its rows are contiguous.
  const ProductTile own = product_tiles(product, 0)[0];
  const bool shared = product.items() == 1;
  const bool pads = shared && product.tiling.rows > 0 && product.lda == product.k;
  if (shared && product.tiling.rows > 0 && !pads)
    return unimplemented(cat(setup.subject, ": rows of A that are not contiguous"));
  BoxProducts boxes;
  LEAT_RETURN_IF_ERROR(
      boxes.make(product, std::min(kRowsOfCall, own.rows), own.columns, pads, shared));
  // C comes as float.
  const KernelFactory factory = [&](const KernelSetup& inner) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<Bf16ProductKernel>(
        product, product_tiles(product, inner.tile_rows), std::move(boxes), pads));
  };
  return compute_in_f32(setup, factory, {.rounded_outputs = 1, .kept_inputs = 3});
}

}  // namespace leat
