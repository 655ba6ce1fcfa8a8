#include <algorithm>
#include <iterator>

#include "devices/core/tensor.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/reduce_kernels.h"
#include "ops/cpu/vectorize.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

constexpr int64_t kUnitColumns = 256;
constexpr int64_t kPiece = 512;  // elements of a line of floats that are compared together

// The largest or smallest of n numbers; NaN if there is one.
LEAT_VECTOR_CLONES float extreme_of(const float* x, int64_t n, bool largest) {
  return largest ? fold_line<MaxFold, AsIs>(x, n) : fold_line<MinFold, AsIs>(x, n);
}

// The index of the first of n numbers that equals `value`, or of the last one; n or -1 if there is
// none.
LEAT_VECTOR_CLONES int32_t first_equal(const float* x, float value, int32_t n) {
  int32_t at = n;
  for (int32_t i = 0; i < n; ++i) at = std::min(at, x[i] == value ? i : n);
  return at;
}
LEAT_VECTOR_CLONES int32_t last_equal(const float* x, float value, int32_t n) {
  int32_t at = -1;
  for (int32_t i = 0; i < n; ++i) at = std::max(at, x[i] == value ? i : -1);
  return at;
}
// The same, where NaN equals NaN.
int32_t index_of(const float* x, float value, int32_t n, bool last) {
  if (value == value) return last ? last_equal(x, value, n) : first_equal(x, value, n);
  const auto is_nan = [](float v) { return v != v; };
  if (!last) return static_cast<int32_t>(std::find_if(x, x + n, is_nan) - x);
  const auto from_end = std::reverse_iterator(x + n);
  return n - 1 - static_cast<int32_t>(std::find_if(from_end, from_end + n, is_nan) - from_end);
}

// x is [outer, axis, inner]; one unit is up to kUnitColumns neighbouring elements of inner. NaN
// counts as the largest for max and as the smallest for min, as in numpy.
template <typename T>
class ArgKernel final : public Kernel {
  using A = Compute<T>;
  static constexpr bool kHasLines = std::is_same_v<A, float>;

 public:
  ArgKernel(const KernelSetup& setup, int axis, bool largest, bool last)
      : outer_(setup.input(0).shape.elements(0, axis)),
        size_(setup.input(0).shape[axis]),
        inner_(setup.input(0).shape.elements(axis + 1, setup.input(0).shape.rank())),
        largest_(largest),
        last_(last) {
    // A tile is a number of units. In a chain it covers the rows of dimension 0 that the chain
    // gives.
    columns_ = (inner_ + kUnitColumns - 1) / kUnitColumns;
    const int64_t rows = setup.tile_rows > 0 ? setup.input(0).shape[0] : 0;
    if (rows > 0)
      tile_units_ = setup.tile_rows * (outer_ / rows) * columns_;
    else
      tile_units_ = default_tile_rows(outer_ * columns_, std::min(inner_, kUnitColumns) * size_);
    tile_units_ = std::max<int64_t>(1, tile_units_);
    // An input without elements has no units, but a chain expects the tiles that its rows make.
    if (outer_ * columns_ == 0 && rows > 0)
      tiles_ = tile_count(rows, setup.tile_rows);
    else
      tiles_ = tile_count(outer_ * columns_, tile_units_);
  }
  int tiles(int) const override { return tiles_; }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t end = std::min(outer_ * columns_, (tile + 1) * tile_units_);
    for (int64_t unit = tile * tile_units_; unit < end; ++unit) {
      if constexpr (kHasLines) {
        if (inner_ == 1 && size_ >= kFoldLanes) {
          context.out<int64_t>(0)[unit] = find_in_line(context.in<T>(0) + unit * size_);
          continue;
        }
      }
      find(context, unit / columns_, unit % columns_ * kUnitColumns);
    }
    return Progress::done;
  }

 private:
  // The place in a line of contiguous elements, which are compared as floats.
  int64_t find_in_line(const T* x) const {
    float wide[kPiece], best = 0;
    int64_t at = -1;
    for (int64_t begin = 0; begin < size_; begin += kPiece) {
      const int64_t n = std::min(kPiece, size_ - begin);
      const float* piece = wide;
      if constexpr (std::is_same_v<T, float>)
        piece = x + begin;
      else
        widen(x + begin, wide, n);
      const float value = extreme_of(piece, n, largest_);
      if (at >= 0 && !better(value, best)) continue;
      best = value;
      at = begin + index_of(piece, value, static_cast<int32_t>(n), last_);
    }
    return at;
  }
  // Walks along the axis for `width` neighbours at once, so that the reads are contiguous.
  void find(KernelContext& context, int64_t outer, int64_t column) const {
    const int64_t width = std::min(kUnitColumns, inner_ - column);
    const T* x = context.in<T>(0) + outer * size_ * inner_ + column;
    int64_t* best = context.out<int64_t>(0) + outer * inner_ + column;
    A values[kUnitColumns];
    for (int64_t j = 0; j < width; ++j) {
      values[j] = load_as_compute(x[j]);
      best[j] = 0;
    }
    for (int64_t i = 1; i < size_; ++i) {
      const T* line = x + i * inner_;
      for (int64_t j = 0; j < width; ++j) {
        const A value = load_as_compute(line[j]);
        if (!better(value, values[j])) continue;
        values[j] = value;
        best[j] = i;
      }
    }
  }
  // True if `value`, which comes later, replaces `than`. Of equal elements the first one counts, or
  // the last one with select_last_index.
  bool better(A value, A than) const {
    const bool nan = value != value, than_nan = than != than;
    if (nan || than_nan) return nan && (!than_nan || last_);
    if (value == than) return last_;
    return largest_ ? value > than : value < than;
  }

  int64_t outer_, size_, inner_;
  bool largest_, last_;
  int64_t columns_ = 1;
  int64_t tile_units_ = 1;
  int tiles_ = 1;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_arg_kernel(const KernelSetup& setup, bool largest) {
  const int64_t axis = attr_int(setup.attrs(), "axis");
  const int at = static_cast<int>(axis < 0 ? axis + setup.input(0).shape.rank() : axis);
  const bool last = attr_int(setup.attrs(), "select_last_index") != 0;
  return dispatch_dtype(setup.input(0).dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<ArgKernel<decltype(zero)>>(setup, at, largest, last);
  });
}

}  // namespace leat
