// The tiles of MatMul and Gemm, and the end of each tile: what the kernels for all dtypes share.
//
// Tiles are 128 rows (or as the kernel asks) by 512 columns. They are narrower and lower if there
// would be few of them and each one still has enough work for a thread. K is never split. They
// follow from the sizes alone, never from the number of threads.
#pragma once

#include <vector>

#include "ops/cpu/gemm.h"
#include "ops/definitions/product.h"

namespace leat {

inline constexpr int64_t kProductTileColumns = 512;

// A box of Y: items x rows x columns.
struct ProductTile {
  int64_t item = 0, items = 1, row = 0, rows = 0, column = 0, columns = 0;
};

// The shape of a kernel's own tiles.
struct TileShape {
  int64_t most_rows = 128;
  // If there would be few tiles: true halves the longer side, false the columns first.
  bool square = false;
};

// The tiles of a product, at least one: those of `chain_rows` rows of Y's dimension 0, with all
// columns, if a chain gives them (chain_rows > 0, and the product can be cut); else its own. All of
// its own tiles have the size of the first one, but for the last ones of a row or column.
std::vector<ProductTile> product_tiles(const Product& product, int64_t chain_rows,
                                       TileShape shape = {});

// Adds beta * C to a row of the product. Integers go through unsigned types, so that they wrap
// around.
template <typename T>
void add_c(const Product& p, T* row, const T* c, int64_t columns) {
  using U = typename Accumulator<T>::type;
  const bool whole = p.beta == 1;
  const auto term = [&](T value) {
    return whole ? static_cast<U>(value)
                 : static_cast<U>(static_cast<T>(p.beta * static_cast<double>(value)));
  };
  if (p.c_column == 0) {
    const U value = term(c[0]);
    for (int64_t j = 0; j < columns; ++j) row[j] = static_cast<T>(static_cast<U>(row[j]) + value);
  } else {
    for (int64_t j = 0; j < columns; ++j)
      row[j] = static_cast<T>(static_cast<U>(row[j]) + term(c[j]));
  }
}

// Applies alpha (if `scales`: not every product has it already), C and the activation to a tile of
// one item, while it is in the cache. `c` is C at the tile, or null; rows of y are `ldy` apart.
template <typename T>
void finish_box(const Product& p, const ProductTile& tile, const T* c, T* y, int64_t ldy,
                bool scales) {
  const bool scale = scales && p.alpha != 1;
  if (!scale && !c && !p.relu) return;
  for (int64_t i = 0; i < tile.rows; ++i) {
    T* row = y + i * ldy;
    if (scale) {
      for (int64_t j = 0; j < tile.columns; ++j)
        row[j] = static_cast<T>(p.alpha * static_cast<double>(row[j]));
    }
    if (c) add_c(p, row, c + i * p.c_row, tile.columns);
    if (p.relu) {
      for (int64_t j = 0; j < tile.columns; ++j) row[j] = !(row[j] <= T{}) ? row[j] : T{};
    }
  }
}

}  // namespace leat
