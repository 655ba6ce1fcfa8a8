#include "ops/cpu/matmul_kernel.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/gemm_few_rows.h"
#include "ops/cpu/library_failure.h"
#include "ops/cpu/matmul_tiles.h"

namespace leat {
namespace {

// A product that is computed as a larger one, with zeros behind A and B.
class Padding {
 public:
  Padding() = default;
  // A product of rows x columns that is computed with at least so many.
  Padding(int64_t rows, int64_t columns, int64_t least_rows, int64_t least_columns)
      : rows_(std::max(rows, least_rows)),
        columns_(std::max(columns, least_columns)),
        pads_a_(rows > 0 && rows < least_rows),
        pads_b_(columns > 0 && columns < least_columns) {}
  bool needed() const { return pads_a_ || pads_b_; }
  size_t scratch_bytes(int64_t k) const {
    const int64_t operands = (pads_a_ ? rows_ * k : 0) + (pads_b_ ? columns_ * k : 0);
    return needed() ? static_cast<size_t>(operands + rows_ * columns_) * sizeof(float) : 0;
  }
  // REQUIRES: needed().
  bool gemm(onednn::Gemm g, const float* a, const float* b, float* c, std::byte* scratch) const {
    auto* wide = reinterpret_cast<float*>(scratch);
    // The padded product goes to `wide`, which is [rows_, columns_]; A and B are copied behind it
    // if they are padded. The part that was asked for is copied to C.
    const onednn::Gemm asked = g;
    float* operands = wide + rows_ * columns_;
    if (pads_a_) {
      a = pad(a, g.trans_a, g.lda, {g.m, rows_, g.k}, operands);
      g.lda = g.trans_a ? rows_ : g.k;
      operands += rows_ * g.k;
    }
    if (pads_b_) {
      b = pad(b, !g.trans_b, g.ldb, {g.n, columns_, g.k}, operands);
      g.ldb = g.trans_b ? g.k : columns_;
    }
    g.m = rows_, g.n = columns_, g.ldc = columns_;
    if (!onednn::sgemm(g, a, b, wide)) return false;
    for (int64_t i = 0; i < asked.m; ++i) {
      std::copy_n(wide + i * columns_, asked.n, c + i * asked.ldc);
    }
    return true;
  }

 private:
  struct Lines {
    int64_t given, padded, k;
  };
  // Copies lines of k elements each, or with `across` k lines of adjacent elements, and pads them.
  static const float* pad(const float* from, bool across, int64_t stride, Lines lines, float* to) {
    const int64_t outer = across ? lines.k : lines.given, inner = across ? lines.given : lines.k;
    const int64_t step = across ? lines.padded : lines.k;
    std::fill_n(to, lines.padded * lines.k, 0.0f);
    for (int64_t i = 0; i < outer; ++i) std::copy_n(from + i * stride, inner, to + i * step);
    return to;
  }

  int64_t rows_ = 1, columns_ = 1;
  bool pads_a_ = false, pads_b_ = false;
};

// With AVX-512, oneDNN takes other paths, with other bits, for a tile of one column, of one row,
// or, if B is transposed, of fewer than 16 rows. For larger tiles the bits of an element follow
// from its row, its column and k alone. A smaller tile of a product that can be cut is therefore
// padded.
Padding padding_for(const Product& p, const ProductTile& tile) {
  // Only a product whose rows can be cut must not depend on the number of rows in a tile.
  const int64_t rows = p.tiling.rows > 0 && p.items() == 1 ? (p.trans_b ? 16 : 2) : 1;
  return {tile.rows, tile.columns, rows, p.n > 1 ? 2 : 1};
}

// Without AVX-512, oneDNN computes panels of 12 rows by 16 columns, and takes another path, with
// other bits, for a panel that is not full, and for large products. The bits of an element in a
// full panel of a call of this size follow from its row, its column and k alone.
constexpr int64_t kPanelRows = 12, kPanelColumns = 16;
constexpr int64_t kCallRows = 72, kCallColumns = 512;

size_t panels_scratch_bytes(int64_t k) {
  const int64_t operands = (kPanelRows + kPanelColumns) * k;
  return static_cast<size_t>(operands + kPanelRows * kCallColumns) * sizeof(float);
}

// The lines of the next call: as many whole panels as it may take, or the rest of one.
int64_t lines_of_call(int64_t left, int64_t panel, int64_t most) {
  return left < panel ? left : std::min(left / panel * panel, most);
}

// Multiplies panel after panel, and pads those that are not full.
bool gemm_in_panels(const onednn::Gemm& g, const float* a, const float* b, float* c,
                    std::byte* scratch) {
  onednn::Gemm call = g;
  for (int64_t row = 0; row < g.m; row += call.m) {
    call.m = lines_of_call(g.m - row, kPanelRows, kCallRows);
    for (int64_t column = 0; column < g.n; column += call.n) {
      call.n = lines_of_call(g.n - column, kPanelColumns, kCallColumns);
      const float* of_a = a + (g.trans_a ? row : row * g.lda);
      const float* of_b = b + (g.trans_b ? column * g.ldb : column);
      float* of_c = c + row * g.ldc + column;
      const Padding padding(call.m, call.n, kPanelRows, kPanelColumns);
      if (!(padding.needed() ? padding.gemm(call, of_a, of_b, of_c, scratch)
                             : onednn::sgemm(call, of_a, of_b, of_c)))
        return false;
    }
  }
  return true;
}

// One tile multiplies its box of Y and finishes it, item after item. `rounded` is the dtype of Y if
// it is a 16-bit float and the operands are float: each box is then computed in the scratch memory
// and rounded from there.
template <typename T>
class ProductKernel final : public Kernel {
 public:
  ProductKernel(Product product, std::vector<ProductTile> tiles, DType rounded)
      : p_(std::move(product)), tiles_(std::move(tiles)), rounded_(rounded) {
    for (const ProductTile& tile : tiles_) {
      for_parts(tile, [&](const ProductTile& part) {
        const size_t bytes = few_rows_    ? 0
                             : in_panels_ ? panels_scratch_bytes(p_.k)
                                          : padding(part).scratch_bytes(p_.k);
        scratch_bytes_ = std::max(scratch_bytes_, bytes);
        if (rounded_ != DType::invalid) box_ = std::max(box_, part.rows * part.columns);
        return true;
      });
    }
    box_ = (box_ + 15) / 16 * 16;  // the scratch memory behind the box stays aligned to 64
  }

  int tiles(int) const override { return static_cast<int>(tiles_.size()); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(box_) * sizeof(T) + scratch_bytes_;
  }
  Progress run(KernelContext& context, int, int index) override {
    const bool ok = for_parts(tiles_[static_cast<size_t>(index)],
                              [&](const ProductTile& part) { return compute(context, part); });
    return ok ? Progress::done : library_failed(context, "multiply");
  }

 private:
  // Calls f for each item of a tile, until it returns false. A rounded tile is also cut into parts
  // of kProductTileColumns, so that a part fits the cache.
  template <typename F>
  bool for_parts(const ProductTile& tile, F&& f) const {
    const int64_t width = rounded_ != DType::invalid ? kProductTileColumns : tile.columns;
    for (int64_t item = tile.item; item < tile.item + tile.items; ++item) {
      for (int64_t column = 0; column < tile.columns; column += width) {
        if (!f({item, 1, tile.row, tile.rows, tile.column + column,
                std::min(width, tile.columns - column)}))
          return false;
      }
    }
    return true;
  }

  bool compute(const KernelContext& context, const ProductTile& part) const {
    const auto i = static_cast<size_t>(part.item);
    const T* a = context.in<T>(0) + p_.a_offsets[i] + (p_.trans_a ? part.row : part.row * p_.lda);
    const T* b =
        context.in<T>(1) + p_.b_offsets[i] + (p_.trans_b ? part.column * p_.ldb : part.column);
    const T* c =
        p_.has_c ? context.in<T>(2) + part.row * p_.c_row + part.column * p_.c_column : nullptr;
    const int64_t first = (part.item * p_.m + part.row) * p_.n + part.column;  // of Y
    const bool round = rounded_ != DType::invalid;
    T* y = round ? reinterpret_cast<T*>(context.scratch) : context.out<T>(0) + first;
    const int64_t ldy = round ? part.columns : p_.n;
    const onednn::Gemm g{p_.trans_a, p_.trans_b, part.rows, part.columns, p_.k,
                         p_.lda,     p_.ldb,     ldy,       fused_alpha()};
    std::byte* scratch = context.scratch + static_cast<size_t>(box_) * sizeof(T);
    if (!multiply(padding(part), g, a, b, y, scratch)) return false;
    finish_box(p_, part, c, y, ldy, !kFloat || few_rows_);
    if constexpr (kFloat) {
      for (int64_t row = 0; round && row < part.rows; ++row) {
        narrow(rounded_, y + row * ldy, context.out<uint16_t>(0) + first + row * p_.n,
               part.columns);
      }
    }
    return true;
  }

  static constexpr bool kFloat = std::is_same_v<T, float>;
  Padding padding(const ProductTile& tile) const {
    return kFloat && p_.k > 0 ? padding_for(p_, tile) : Padding();
  }
  bool multiply(const Padding& padding, const onednn::Gemm& g, const T* a, const T* b, T* y,
                std::byte* scratch) const {
    if constexpr (kFloat) {
      if (few_rows_) {
        few_rows_gemm(g, a, b, y);
        return true;
      }
      if (in_panels_ && g.m > 0 && g.n > 0) return gemm_in_panels(g, a, b, y, scratch);
      if (padding.needed()) return padding.gemm(g, a, b, y, scratch);
    }
    return gemm<T>(g, a, b, y, scratch);
  }
  // The library multiplies floats by alpha; the other loops do not, so finish_box() does.
  float fused_alpha() const { return kFloat ? static_cast<float>(p_.alpha) : 1.0f; }

  Product p_;
  std::vector<ProductTile> tiles_;
  const bool few_rows_ =
      kFloat &&
      few_rows_gemm_fits(
          {.trans_a = p_.trans_a, .trans_b = p_.trans_b, .m = p_.m, .n = p_.n, .k = p_.k});
  const bool in_panels_ = kFloat && p_.k > 0 && !onednn::has_avx512();
  DType rounded_;
  size_t scratch_bytes_ = gemm_scratch_bytes<T>();
  int64_t box_ = 0;  // elements of the box in the scratch memory, if Y is rounded
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_product_kernel(const KernelSetup& setup, Product product) {
  std::vector<ProductTile> tiles = product_tiles(product, setup.tile_rows);
  const DType dtype = setup.input(0).dtype, result = setup.output(0).dtype;
  const DType rounded = result == dtype ? DType::invalid : result;
  return dispatch_dtype(dtype, [&](auto zero) -> Result<std::unique_ptr<Kernel>> {
    using T = decltype(zero);
    // The operands f16 and bf16 come here as float; the signature has no narrower integers.
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> ||
                  (std::is_integral_v<T> && sizeof(T) >= 4)) {
      return std::unique_ptr<Kernel>(
          std::make_unique<ProductKernel<T>>(std::move(product), std::move(tiles), rounded));
    } else {
      return unimplemented(cat(setup.subject, ": no product of ", dtype));
    }
  });
}

}  // namespace leat
