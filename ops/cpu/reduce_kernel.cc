#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "devices/core/tensor.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/reduce_kernels.h"
#include "ops/cpu/vectorize.h"
#include "ops/definitions/reduce_shape.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

constexpr int64_t kColumns = 256;  // of one group, where lines are folded element by element
constexpr int64_t kTileElements = 32 * 1024;

// Folds `rows` rows, `stride` elements apart, into acc. A full block of columns stays in registers
// while the loop passes over the rows. Each column folds its rows in their order, in a block as in
// the rest, so the width of the blocks cannot change a bit.
template <typename Fold, typename Map, typename T>
LEAT_INLINE void fold_rows(T* acc, const T* x, int64_t rows, int64_t stride, int64_t width) {
  constexpr int64_t kBlock = 64;
  int64_t j = 0;
  for (; j + kBlock <= width; j += kBlock) {
    T block[kBlock];
    std::memcpy(block, acc + j, sizeof block);
    for (int64_t r = 0; r < rows; ++r) fold_row<Fold, Map>(block, x + r * stride + j, kBlock);
    std::memcpy(acc + j, block, sizeof block);
  }
  for (int64_t r = 0; j < width && r < rows; ++r) {
    fold_row<Fold, Map>(acc + j, x + r * stride + j, width - j);
  }
}

// Sums `rows` rows of bf16, `stride` elements apart, into acc, as fold_rows() does: each element is
// widened in a register. Gradients of biases are such sums.
LEAT_VECTOR_CLONES void sum_rows_bf16(float* acc, const uint16_t* x, int64_t rows, int64_t stride,
                                      int64_t width) {
  constexpr int64_t kBlock = 64;
  int64_t j = 0;
  for (; j + kBlock <= width; j += kBlock) {
    float block[kBlock];
    std::memcpy(block, acc + j, sizeof block);
    for (int64_t r = 0; r < rows; ++r) {
      const uint16_t* row = x + r * stride + j;
      for (int64_t i = 0; i < kBlock; ++i)
        block[i] += std::bit_cast<float>(static_cast<uint32_t>(row[i]) << 16);
    }
    std::memcpy(acc + j, block, sizeof block);
  }
  for (int64_t r = 0; j < width && r < rows; ++r) {
    const uint16_t* row = x + r * stride;
    for (int64_t i = j; i < width; ++i)
      acc[i] += std::bit_cast<float>(static_cast<uint32_t>(row[i]) << 16);
  }
}

// The loops of f32 sums and means, which training uses most, are cloned; the other folds are not.
LEAT_VECTOR_CLONES float sum_line_f32(const float* x, int64_t n) {
  return fold_line<SumFold, AsIs>(x, n);
}
LEAT_VECTOR_CLONES void sum_rows_f32(float* acc, const float* x, int64_t rows, int64_t stride,
                                     int64_t width) {
  fold_rows<SumFold, AsIs>(acc, x, rows, stride, width);
}

// The conversions from elements of the input to the compute type, and from results to elements of
// the output.
template <typename A>
struct Access {
  bool direct = false;  // the input already has type A
  bool bf16 = false;    // the input is bf16
  size_t size = 0;
  void (*load)(const std::byte* from, int64_t n, A* to) = nullptr;
  void (*store)(const A* from, int64_t n, std::byte* to) = nullptr;
  void (*store_empty)(int64_t n, std::byte* to,
                      Reduction) = nullptr;  // for results of no elements
};

// The result of a reduction of no elements: the identity of the fold. The mean is NaN, or 0 for
// integers, which have no NaN.
template <typename T>
T empty_result(Reduction reduction) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return store_from_compute<T>(empty_result<float>(reduction));
  } else {
    switch (reduction) {
      case Reduction::max:
        return MaxFold::identity<T>();
      case Reduction::min:
        return MinFold::identity<T>();
      case Reduction::prod:
        return T(1);
      case Reduction::mean:
        if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::quiet_NaN();
        return T(0);
      default:
        return T(0);
    }
  }
}

// The functions for elements of type T. The kernel is a template over the compute type alone, and
// calls them by pointer, so f32, f16 and bf16 share one instance.
template <typename T>
Access<Compute<T>> access_of() {
  using A = Compute<T>;
  Access<A> access;
  access.direct = std::is_same_v<T, A>;
  access.bf16 = std::is_same_v<T, BFloat16>;
  access.size = sizeof(T);
  access.load = [](const std::byte* from, int64_t n, A* to) {
    const T* x = reinterpret_cast<const T*>(from);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      return widen(x, to, n);
    else
      for (int64_t i = 0; i < n; ++i) to[i] = load_as_compute(x[i]);
  };
  access.store = [](const A* from, int64_t n, std::byte* to) {
    T* y = reinterpret_cast<T*>(to);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      return narrow(from, y, n);
    else
      for (int64_t i = 0; i < n; ++i) y[i] = store_from_compute<T>(from[i]);
  };
  access.store_empty = [](int64_t n, std::byte* to, Reduction reduction) {
    std::fill_n(reinterpret_cast<T*>(to), n, empty_result<T>(reduction));
  };
  return access;
}

// Results are computed in groups: one result if the line is reduced, or up to kColumns neighbours
// if lines are folded element by element. The leaves of a group are lines, or blocks of rows. A
// group with many leaves is cut into chunks: aligned subtrees that phase 0 folds separately and
// phase 1 merges.
template <typename A, typename Fold, typename Map>
class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const KernelSetup& setup, const ReduceShape& shape, Reduction reduction,
               Access<A> access)
      : shape_(shape), reduction_(reduction), access_(access) {
    // The kernel of an empty input only writes the results of no elements, in tiles of rows.
    empty_ = shape.rows * shape.row_elements == 0;
    empty_tile_ =
        setup.tile_rows > 0 && shape.has_rows ? setup.tile_rows : std::max<int64_t>(1, shape.rows);
    if (empty_) return;
    // A group and its leaves follow from the shape alone.
    const bool lines = shape.line_reduced;
    line_results_ = lines ? 1 : shape.line;
    width_ = lines ? 1 : std::min(kColumns, shape.line);
    columns_ = lines ? 1 : (shape.line + width_ - 1) / width_;
    blocks_ = lines ? (shape.line + kLineBlock - 1) / kLineBlock : 1;
    leaves_ =
        lines ? shape.reduced.total * blocks_ : (shape.reduced.total + kRowBlock - 1) / kRowBlock;
    row_groups_ = shape.kept.total * columns_;
    chunk_leaves_ = leaves_;
    // The elements of a leaf, which decide how many leaves make a tile's work.
    const int64_t leaf = lines ? std::min(shape.line, kLineBlock)
                               : width_ * std::min(kRowBlock, shape.reduced.total);
    // In a chain a tile has whole rows, and a group is never cut. The tree is the same: chunks are
    // aligned subtrees of 2^k leaves, so cutting a group does not change the order of its sums.
    if (setup.tile_rows > 0 && shape.has_rows) {
      tile_units_ = setup.tile_rows * row_groups_;
    } else {
      chunk_leaves_ = static_cast<int64_t>(
          std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, kTileElements / leaf))));
      chunks_ = (leaves_ + chunk_leaves_ - 1) / chunk_leaves_;
      chunk_leaves_ = std::min(chunk_leaves_, leaves_);
      tile_units_ = std::max<int64_t>(1, kTileElements / (leaf * chunk_leaves_));
    }
    units_ = shape.rows * row_groups_ * chunks_;
  }

  int phases() const override { return chunks_ > 1 ? 2 : 1; }
  int tiles(int phase) const override {
    if (empty_) return tile_count(shape_.rows, empty_tile_);
    return phase == 0 ? tile_count(units_, tile_units_)
                      : tile_count(units_ / chunks_, merge_groups());
  }
  size_t workspace_bytes() const override {
    return chunks_ > 1 ? static_cast<size_t>(units_ * width_) * sizeof(A) : 0;
  }
  size_t scratch_bytes() const override {
    const int64_t buffers = TreeStack<Fold, A>::buffers(std::max(chunk_leaves_, chunks_));
    return static_cast<size_t>(kLineBlock + buffers * width_) * sizeof(A);
  }

  // Phase 0 folds units. If a group is one chunk, its result is final; else phase 1 merges the
  // chunks from the workspace.
  Progress run(KernelContext& context, int phase, int tile) override {
    auto* out = context.out<std::byte>(0);
    if (empty_) {
      const int64_t first = tile * empty_tile_, rows = std::min(empty_tile_, shape_.rows - first);
      const int64_t offset = first * shape_.row_results * static_cast<int64_t>(access_.size);
      access_.store_empty(rows * shape_.row_results, out + offset, reduction_);
      return Progress::done;
    }
    if (phase == 1) return merge(context, tile);
    const int64_t end = std::min(units_, (tile + 1) * tile_units_);
    for (int64_t unit = tile * tile_units_; unit < end; ++unit) {
      A* result = fold_unit(context, unit / chunks_, unit % chunks_);
      const int64_t width = group_width(unit / chunks_);
      if (chunks_ == 1)
        finish(result, width, unit, out);
      else
        std::copy_n(result, width, partial(context, unit));
    }
    return Progress::done;
  }

 private:
  // The number of groups that a tile of phase 1 merges.
  int64_t merge_groups() const { return std::max<int64_t>(1, kTileElements / (chunks_ * width_)); }
  A* partial(KernelContext& context, int64_t unit) const {
    return reinterpret_cast<A*>(context.workspace) + unit * width_;
  }
  // The scratch memory has the loaded elements of one leaf first, then the buffers of the tree.
  A* stack_memory(KernelContext& context) const {
    return reinterpret_cast<A*>(context.scratch) + kLineBlock;
  }
  // The last group of a line may have fewer results than the others.
  int64_t group_width(int64_t group) const {
    return std::min(width_, line_results_ - group % columns_ * width_);
  }

  // Phase 1: folds the chunks of each group in a tree above their subtrees, from left to right.
  Progress merge(KernelContext& context, int tile) {
    const int64_t groups = units_ / chunks_;
    const int64_t end = std::min(groups, (tile + 1) * merge_groups());
    for (int64_t group = tile * merge_groups(); group < end; ++group) {
      const int64_t width = group_width(group);
      TreeStack<Fold, A> stack(stack_memory(context), width);
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        std::copy_n(partial(context, group * chunks_ + chunk), width, stack.top());
        stack.push();
      }
      finish(stack.finish(), width, group, context.out<std::byte>(0));
    }
    return Progress::done;
  }

  // Folds the subtree of one chunk of a group.
  A* fold_unit(KernelContext& context, int64_t group, int64_t chunk) {
    // The offset in the input: the row, the kept axes before the line, and the columns of the line.
    const int64_t row = group / row_groups_, in_row = group % row_groups_;
    const int64_t width = group_width(group);
    const int64_t start = row * shape_.row_elements + shape_.kept.offset(in_row / columns_) +
                          in_row % columns_ * width_;
    const auto* x = context.in<std::byte>(0) + start * static_cast<int64_t>(access_.size);
    A* buffer = reinterpret_cast<A*>(context.scratch);
    TreeStack<Fold, A> stack(stack_memory(context), width);
    const int64_t end = std::min(leaves_, (chunk + 1) * chunk_leaves_);
    for (int64_t leaf = chunk * chunk_leaves_; leaf < end; ++leaf) {
      if (shape_.line_reduced)
        *stack.top() = fold_line_leaf(x, leaf, buffer);
      else
        fold_row_leaf(x, leaf, width, stack.top(), buffer);
      stack.push();
    }
    return stack.finish();
  }

  // The elements as the compute type: in place if they have it, else converted into `buffer`.
  const A* loaded(const std::byte* from, int64_t n, A* buffer) const {
    if (access_.direct) return reinterpret_cast<const A*>(from);
    access_.load(from, n, buffer);
    return buffer;
  }

  // A leaf where the line is reduced: block leaf % blocks_ of line leaf / blocks_.
  A fold_line_leaf(const std::byte* x, int64_t leaf, A* buffer) const {
    const int64_t at = leaf % blocks_ * kLineBlock, n = std::min(kLineBlock, shape_.line - at);
    const int64_t offset = shape_.reduced.offset(leaf / blocks_) + at;
    const A* line = loaded(x + offset * static_cast<int64_t>(access_.size), n, buffer);
    if constexpr (kF32Sum)
      return sum_line_f32(line, n);
    else
      return fold_line<Fold, Map>(line, n);
  }

  // A leaf where lines are folded element by element: kRowBlock lines, of which `width` columns.
  void fold_row_leaf(const std::byte* x, int64_t leaf, int64_t width, A* acc, A* buffer) const {
    const int64_t first = leaf * kRowBlock,
                  rows = std::min(kRowBlock, shape_.reduced.total - first);
    std::fill_n(acc, width, Fold::template identity<A>());
    // With one reduced axis, the lines are at a constant distance, and a loop folds all of them in
    // place.
    if (access_.direct && shape_.reduced.count <= 1) {
      const int64_t stride = shape_.reduced.strides[0];
      const A* from = reinterpret_cast<const A*>(x) + first * stride;
      if constexpr (kF32Sum)
        sum_rows_f32(acc, from, rows, stride, width);
      else
        fold_rows<Fold, Map>(acc, from, rows, stride, width);
      return;
    }
    if constexpr (kF32Sum) {
      if (access_.bf16 && shape_.reduced.count <= 1) {
        const int64_t stride = shape_.reduced.strides[0];
        return sum_rows_bf16(acc, reinterpret_cast<const uint16_t*>(x) + first * stride, rows,
                             stride, width);
      }
    }
    for (int64_t r = first; r < first + rows; ++r) {
      const A* row =
          loaded(x + shape_.reduced.offset(r) * static_cast<int64_t>(access_.size), width, buffer);
      fold_row<Fold, Map>(acc, row, width);
    }
  }

  // Writes the results of a group, after the operation that follows the fold: a division or a root.
  void finish(const A* result, int64_t width, int64_t group, std::byte* out) const {
    const int64_t row = group / row_groups_, in_row = group % row_groups_;
    const int64_t at =
        row * shape_.row_results + in_row / columns_ * line_results_ + in_row % columns_ * width_;
    A values[kColumns];
    for (int64_t j = 0; j < width; ++j) {
      values[j] = result[j];
      if (reduction_ == Reduction::mean) values[j] = values[j] / static_cast<A>(shape_.folded);
      if (reduction_ == Reduction::l2) values[j] = static_cast<A>(std::sqrt(values[j]));
    }
    access_.store(values, width, out + at * static_cast<int64_t>(access_.size));
  }

  static constexpr bool kF32Sum =
      std::is_same_v<A, float> && std::is_same_v<Fold, SumFold> && std::is_same_v<Map, AsIs>;

  ReduceShape shape_;
  Reduction reduction_;
  Access<A> access_;
  bool empty_ = false;        // the input is empty: every result is that of no elements
  int64_t empty_tile_ = 1;    // rows
  int64_t line_results_ = 1;  // of a line
  int64_t width_ = 1;         // results of a group
  int64_t columns_ = 1;       // groups of a line
  int64_t blocks_ = 1;        // leaves of a line
  int64_t leaves_ = 1;        // of a group
  int64_t row_groups_ = 1;    // groups of a row
  int64_t chunk_leaves_ = 1;
  int64_t chunks_ = 1;  // of a group
  int64_t units_ = 1;   // (group, chunk)
  int64_t tile_units_ = 1;
};

// Makes the kernel of a reduction: its fold, and the function of an element before it. The default
// is sum_square and l2, which sum squares.
template <typename A>
std::unique_ptr<Kernel> reduce_in(const KernelSetup& setup, const ReduceShape& shape,
                                  Reduction reduction, Access<A> access) {
  const auto make = [&](auto fold, auto map) -> std::unique_ptr<Kernel> {
    return std::make_unique<ReduceKernel<A, decltype(fold), decltype(map)>>(setup, shape, reduction,
                                                                            access);
  };
  switch (reduction) {
    case Reduction::sum:
    case Reduction::mean:
      return make(SumFold{}, AsIs{});
    case Reduction::max:
      return make(MaxFold{}, AsIs{});
    case Reduction::min:
      return make(MinFold{}, AsIs{});
    case Reduction::prod:
      return make(ProdFold{}, AsIs{});
    case Reduction::l1:
      return make(SumFold{}, Absolute{});
    default:
      return make(SumFold{}, Squared{});
  }
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_reduce_kernel(const KernelSetup& setup, Reduction reduction) {
  const Shape& in = setup.input(0).shape;
  const ReduceShape shape = make_reduce_shape(in, reduced_axes(setup, 1, in.rank()));
  return dispatch_dtype(setup.input(0).dtype, [&](auto zero) {
    return reduce_in(setup, shape, reduction, access_of<decltype(zero)>());
  });
}

}  // namespace leat
