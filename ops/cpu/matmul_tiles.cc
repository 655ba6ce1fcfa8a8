#include "ops/cpu/matmul_tiles.h"

#include <algorithm>

namespace leat {
namespace {

constexpr int64_t kEnoughTiles = 8;
constexpr int64_t kWorthwhile = 1 << 20;  // multiply-adds

// Tiles of `given` rows of Y's dimension 0, as a chain requires.
std::vector<ProductTile> chain_tiles(const Product& p, int64_t given) {
  std::vector<ProductTile> tiles;
  for (int64_t row = 0; row < std::max<int64_t>(1, p.tiling.rows); row += given) {
    const int64_t rows = std::min(given, p.tiling.rows - row);
    if (p.items() == 1)
      tiles.push_back({0, 1, row * p.per_row, rows * p.per_row, 0, p.n});
    else
      tiles.push_back({row * p.per_row, rows * p.per_row, 0, p.m, 0, p.n});
  }
  return tiles;
}

// The tiles of a product without a chain. They follow from the sizes alone, never from the number
// of threads.
std::vector<ProductTile> own_tiles(const Product& p, TileShape shape) {
  int64_t rows = std::min(shape.most_rows, p.m), columns = std::min(kProductTileColumns, p.n);
  const auto count = [&](int64_t size, int64_t tile) {
    return (size + tile - 1) / std::max<int64_t>(1, tile);
  };
  const auto few = [&] {
    return p.items() * count(p.m, rows) * count(p.n, columns) < kEnoughTiles &&
           rows * columns * p.k >= 2 * kWorthwhile;
  };
  while (shape.square && std::max(rows, columns) > 32 && few()) {
    int64_t& longer = columns >= rows ? columns : rows;
    longer = (longer / 2 + 31) / 32 * 32;
  }
  // Columns are halved first, to multiples of 16, and then rows.
  while (!shape.square && columns > 128 && few()) columns = (columns / 2 + 15) / 16 * 16;
  while (!shape.square && rows > 16 && few()) rows = (rows + 1) / 2;
  // If an item is one tile and has little work, a tile takes several items.
  int64_t items = 1;
  if (rows == p.m && columns == p.n) {
    items = std::clamp<int64_t>(kWorthwhile / std::max<int64_t>(1, p.m * p.n * p.k), 1,
                                std::max<int64_t>(1, p.items()));
  }
  std::vector<ProductTile> tiles;
  for (int64_t item = 0; item < p.items(); item += items) {
    for (int64_t row = 0; row < p.m; row += rows) {
      for (int64_t column = 0; column < p.n; column += columns) {
        tiles.push_back({item, std::min(items, p.items() - item), row, std::min(rows, p.m - row),
                         column, std::min(columns, p.n - column)});
      }
    }
  }
  // A kernel has at least one tile; this one is empty.
  if (tiles.empty()) tiles.push_back({0, 0});
  return tiles;
}

}  // namespace

std::vector<ProductTile> product_tiles(const Product& product, int64_t chain_rows,
                                       TileShape shape) {
  return chain_rows > 0 && product.tiling.rows > 0 ? chain_tiles(product, chain_rows)
                                                   : own_tiles(product, shape);
}

}  // namespace leat
