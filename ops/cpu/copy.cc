#include "ops/cpu/copy.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/transpose16.h"
#include "ops/cpu/vectorize.h"

namespace leat {
namespace {

// One axis. Contiguous and broadcast lines are so frequent that they have code of their own.
template <typename T>
void copy_line(T* out, const T* in, int64_t n, int64_t in_step, int64_t out_step) {
  if (in_step == 1 && out_step == 1) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
  } else if (out_step == 1 && in_step == 0) {
    std::fill_n(out, n, *in);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * out_step] = in[i * in_step];
  }
}

// Copies two axes of which the input is contiguous along the first. It works in blocks, so that
// both sides stay in the cache.
constexpr int64_t kTransposedRows = 64;  // of a tile: the height of whole strips of 2-byte elements
template <typename T>
void copy_transposed(T* out, const T* in, int64_t rows, int64_t columns, int64_t in_column,
                     int64_t out_row, int64_t out_column) {
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    const auto* from = reinterpret_cast<const Bits*>(in);
    auto* to = reinterpret_cast<Bits*>(out);
    if (out_column == 1 && transpose_avx512(from, in_column, to, out_row, rows, columns)) return;
  }
  // A block touches few lines of the cache on each side, and uses most of each.
  constexpr int64_t kBlock = 16;
  for (int64_t r = 0; r < rows; r += kBlock) {
    const int64_t r_end = std::min(rows, r + kBlock);
    for (int64_t c = 0; c < columns; c += kBlock) {
      const int64_t c_end = std::min(columns, c + kBlock);
      for (int64_t i = r; i < r_end; ++i) {
        for (int64_t j = c; j < c_end; ++j)
          out[i * out_row + j * out_column] = in[i + j * in_column];
      }
    }
  }
}

// The axis along which the input is contiguous if that is not the last one; -1 if there is none.
int transposed_axis(const StridedCopy& c) {
  const auto last = static_cast<size_t>(c.rank - 1);
  if (c.in_steps[last] == 1 || c.in_steps[last] == 0) return -1;
  for (int d = 0; d + 1 < c.rank; ++d) {
    if (c.in_steps[static_cast<size_t>(d)] == 1) return d;
  }
  return -1;
}

// Copies the part [begin, begin + count) of the first axis.
template <typename T>
void run_copy(const StridedCopy& c, const T* in, T* out, int64_t begin, int64_t count) {
  std::array<int64_t, kMaxCopyRank> sizes = c.sizes, index{};
  sizes[0] = count;
  for (int d = 0; d < c.rank; ++d) {
    if (sizes[static_cast<size_t>(d)] == 0) return;
  }
  in += c.in_offset + begin * c.in_steps[0];
  out += c.out_offset + begin * c.out_steps[0];
  const auto last = static_cast<size_t>(c.rank - 1);
  // The last axis and, if there is one, the axis `across` are the inner loops; the other axes are
  // counted by `index` below.
  const int across = transposed_axis(c);
  while (true) {
    if (across >= 0) {
      const auto a = static_cast<size_t>(across);
      copy_transposed(out, in, sizes[a], sizes[last], c.in_steps[last], c.out_steps[a],
                      c.out_steps[last]);
    } else {
      copy_line(out, in, sizes[last], c.in_steps[last], c.out_steps[last]);
    }
    // Steps to the next index, like a counter with a digit per axis: an axis that wraps around
    // moves back to its start, and the axis before it goes on.
    int d = c.rank - 2;
    for (; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      if (d == across) continue;
      const int64_t move = ++index[k] < sizes[k] ? 1 : 1 - sizes[k];
      in += move * c.in_steps[k];
      out += move * c.out_steps[k];
      if (move == 1) break;
      index[k] = 0;
    }
    if (d < 0) return;
  }
}

class CopyKernel final : public Kernel {
 public:
  CopyKernel(const KernelSetup& setup, CopyPlan plan)
      : element_(dtype_size(setup.input(0).dtype)), rows_(plan.rows), fill_input_(plan.fill_input) {
    const Shape& shape = setup.output(0).shape;
    fill_elements_ = shape.elements();
    // The value of an absent input is zero.
    fill_zero_ = fill_input_ >= 0 && !setup.types.has_input(fill_input_);
    for (const StridedCopy& copy : plan.copies) copies_.push_back(collapsed(copy, rows_ > 0));
    // All copies of a row are done by one tile, so that the rows of the output are complete.
    if (rows_ > 0) {
      int64_t row_elements = 0;
      for (const StridedCopy& c : copies_) row_elements += elements_below(c);
      tile_rows_ = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows_, row_elements);
      return;
    }
    // Without rows, each copy is cut along its first axis into pieces of about one tile.
    for (size_t i = 0; i < copies_.size(); ++i) {
      const int64_t size = copies_[i].sizes[0];
      int64_t step = default_tile_rows(size, elements_below(copies_[i]));
      if (transposed_axis(copies_[i]) == 0)
        step = (step + kTransposedRows - 1) / kTransposedRows * kTransposedRows;
      for (int64_t begin = 0; begin < size; begin += step) {
        pieces_.push_back({i, begin, std::min(step, size - begin)});
      }
    }
  }

  // A kernel with rows fills and copies row by row; any other fills the whole output first.
  bool fills_first() const { return fill_input_ >= 0 && rows_ == 0; }
  int phases() const override { return fills_first() ? 2 : 1; }
  int tiles(int phase) const override {
    if (rows_ > 0) return tile_count(rows_, tile_rows_);
    if (fills_first() && phase == 0) return tile_count(fill_elements_, kFillTile);
    return static_cast<int>(pieces_.size());
  }

  // A copy moves bits, so only the size of an element matters.
  Progress run(KernelContext& context, int phase, int tile) override {
    switch (element_) {
      case 1:
        run_as<uint8_t>(context, phase, tile);
        break;
      case 2:
        run_as<uint16_t>(context, phase, tile);
        break;
      case 4:
        run_as<uint32_t>(context, phase, tile);
        break;
      default:
        run_as<uint64_t>(context, phase, tile);
        break;
    }
    return Progress::done;
  }

 private:
  static constexpr int64_t kFillTile = 64 * 1024;  // elements
  struct Piece {
    size_t copy;
    int64_t begin, count;
  };

  static int64_t elements_below(const StridedCopy& copy) {
    int64_t n = 1;
    for (int d = 1; d < copy.rank; ++d) n *= copy.sizes[static_cast<size_t>(d)];
    return n;
  }

  // Fills the elements [begin, end) of output 0.
  template <typename T>
  void fill(const KernelContext& context, int64_t begin, int64_t end) const {
    const T value = fill_zero_ ? T{0} : *context.in<T>(fill_input_);
    std::fill(context.out<T>(0) + begin, context.out<T>(0) + end, value);
  }

  // A tile of rows fills and copies; without rows, phase 0 fills and phase 1 copies one piece per
  // tile.
  template <typename T>
  void run_as(const KernelContext& context, int phase, int tile) const {
    if (rows_ > 0) {
      const int64_t begin = tile * tile_rows_, end = std::min(rows_, begin + tile_rows_);
      const int64_t row = fill_elements_ / rows_;
      if (fill_input_ >= 0) fill<T>(context, begin * row, end * row);
      for (const StridedCopy& c : copies_) copy_part<T>(context, c, begin, end - begin);
    } else if (fills_first() && phase == 0) {
      const int64_t begin = tile * kFillTile;
      fill<T>(context, begin, std::min(fill_elements_, begin + kFillTile));
    } else {
      const Piece& piece = pieces_[static_cast<size_t>(tile)];
      copy_part<T>(context, copies_[piece.copy], piece.begin, piece.count);
    }
  }

  template <typename T>
  void copy_part(const KernelContext& context, const StridedCopy& c, int64_t begin,
                 int64_t count) const {
    if (context.outputs[c.output] == nullptr) return;  // an output that is not wanted
    run_copy(c, context.in<T>(c.input), context.out<T>(c.output), begin, count);
  }

  size_t element_;
  int64_t rows_;
  int64_t tile_rows_ = 1;
  int fill_input_;
  bool fill_zero_ = false;
  int64_t fill_elements_ = 0;
  std::vector<StridedCopy> copies_;
  std::vector<Piece> pieces_;
};

}  // namespace

std::unique_ptr<Kernel> make_copy_kernel(const KernelSetup& setup, CopyPlan plan) {
  return std::make_unique<CopyKernel>(setup, std::move(plan));
}

}  // namespace leat
