// CPU kernels of ops/definitions/gather.cc.
#include "ops/definitions/gather.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/cpu/indexing.h"
#include "ops/definitions/shapes.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

using elementwise::load;
using elementwise::store;
// A line is the data that one index reads at one outer position; a row of the output is some lines.
class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const KernelSetup& setup)
      : at_(setup, setup.input(0).shape, 1),
        lines_(at_.outer * at_.indices),
        line_bytes_(static_cast<size_t>(at_.inner) * dtype_size(setup.output(0).dtype)) {
    const Shape& out = setup.output(0).shape;
    // A chain gives its tiles in rows of the output. Without one, tiles are numbers of lines.
    const bool by_rows = setup.tile_rows > 0 && out[0] > 0;
    tile_lines_ =
        by_rows ? setup.tile_rows * (lines_ / out[0]) : default_tile_rows(lines_, at_.inner);
    tiles_ = by_rows ? tile_count(out[0], setup.tile_rows) : tile_count(lines_, tile_lines_);
  }
  int tiles(int) const override { return tiles_; }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t begin = tile * tile_lines_, end = std::min(lines_, begin + tile_lines_);
    const auto* data = context.in<std::byte>(0);
    for (int64_t line = begin; line < end; ++line) {
      const int64_t index = at_.at(context, context.inputs[1], line % at_.indices);
      if (index < 0) return Progress::failed;
      const auto from = static_cast<size_t>(line / at_.indices * at_.size + index);
      std::memcpy(context.out<std::byte>(0) + static_cast<size_t>(line) * line_bytes_,
                  data + from * line_bytes_, line_bytes_);
    }
    return Progress::done;
  }

 private:
  Indexing at_;
  int64_t lines_;
  size_t line_bytes_;
  int64_t tile_lines_ = 1;
  int tiles_ = 1;
};

// dx[outer, index[j], inner] += dy[outer, j, inner], in the order of j. The tiles share the work by
// parts of dx: no two write the same element, and the order of the sums does not change.
class GatherGradKernel final : public Kernel {
 public:
  explicit GatherGradKernel(const KernelSetup& setup)
      : at_(setup, setup.output(0).shape, 1),
        dtype_(setup.output(0).dtype),
        // If there is one outer position, the tiles divide the rows of the table among them.
        split_axis_(at_.outer == 1) {
    constexpr int64_t kMostTiles = 64;  // each reads all indices
    const int64_t parts = split_axis_ ? at_.size : at_.outer;
    const int64_t part_elements = split_axis_ ? at_.inner : at_.size * at_.inner;
    step_ =
        std::max(default_tile_rows(parts, part_elements), (parts + kMostTiles - 1) / kMostTiles);
    tiles_ = tile_count(parts, std::max<int64_t>(1, step_));
  }
  int tiles(int) const override { return tiles_; }

  Progress run(KernelContext& context, int, int tile) override {
    switch (dtype_) {
      case DType::f32:
        return run_as<float>(context, tile);
      case DType::f64:
        return run_as<double>(context, tile);
      case DType::f16:
        return run_as<Half>(context, tile);
      default:
        return run_as<BFloat16>(context, tile);
    }
  }

 private:
  template <typename T>
  Progress run_as(const KernelContext& context, int tile) const {
    const int64_t begin = tile * step_;
    // A tile has all rows of some outer positions, or a range [low, high) of rows of the only one.
    const int64_t outer_begin = split_axis_ ? 0 : begin,
                  outer_end = split_axis_ ? 1 : std::min(at_.outer, begin + step_);
    const int64_t low = split_axis_ ? begin : 0,
                  high = split_axis_ ? std::min(at_.size, begin + step_) : at_.size;
    for (int64_t o = outer_begin; o < outer_end; ++o) {
      T* dx = context.out<T>(0) + o * at_.size * at_.inner;
      std::fill(dx + low * at_.inner, dx + high * at_.inner, T{});
      for (int64_t j = 0; j < at_.indices; ++j) {
        const int64_t index = at_.at(context, context.inputs[1], j);
        if (index < 0) return Progress::failed;
        // Another tile has this row. Each tile still checks every index, so all tiles agree on a
        // failure.
        if (index < low || index >= high) continue;
        const T* dy = context.in<T>(0) + (o * at_.indices + j) * at_.inner;
        T* to = dx + index * at_.inner;
        for (int64_t i = 0; i < at_.inner; ++i) to[i] = store<T>(load(to[i]) + load(dy[i]));
      }
    }
    return Progress::done;
  }

  Indexing at_;
  DType dtype_;
  bool split_axis_;
  int64_t step_ = 1;
  int tiles_ = 1;
};

// One tile: y[j] = x[offset of element j].
Result<std::unique_ptr<Kernel>> make_gather_elements(const KernelSetup& setup) {
  const Shape data = setup.input(0).shape, indices = setup.input(1).shape;
  const DType dtype = setup.output(0).dtype;
  const int axis = gather_axis(setup.attrs(), data.rank());
  return make_kernel([=, at = Indexing(setup, data, 1)](KernelContext& context) {
    const bool ok = dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      return each_element(context, at, data, indices, axis, [&](int64_t j, int64_t offset) {
        context.out<T>(0)[j] = context.in<T>(0)[offset];
      });
    });
    return ok ? Progress::done : Progress::failed;
  });
}

// One tile, because several indices may name one element of dx: its sum is in the order of j.
Result<std::unique_ptr<Kernel>> make_gather_elements_grad(const KernelSetup& setup) {
  const Shape data = setup.output(0).shape, indices = setup.input(1).shape;
  const DType dtype = setup.output(0).dtype;
  const int axis = gather_axis(setup.attrs(), data.rank());
  return make_kernel([=, at = Indexing(setup, data, 1)](KernelContext& context) {
    const bool ok = dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_same_v<T, bool>) {
        return true;
      } else {
        T* dx = context.out<T>(0);
        std::fill_n(dx, data.elements(), T{});
        return each_element(context, at, data, indices, axis, [&](int64_t j, int64_t offset) {
          dx[offset] = store<T>(load(dx[offset]) + load(context.in<T>(0)[j]));
        });
      }
    });
    return ok ? Progress::done : Progress::failed;
  });
}

// --- OneHot ----------------------------------------------------------------------------------

// The axis that OneHot adds, as an axis of the output.
int one_hot_axis(const Attrs& attrs, int rank) {
  const int64_t axis = attr_int(attrs, "axis", -1);
  return static_cast<int>(axis < 0 ? axis + rank + 1 : axis);
}

// An index may be NaN or beyond int64: it is compared first, and converted only if that is safe.
template <typename C>
bool in_range(C index, int64_t depth) {
  if constexpr (std::is_floating_point_v<C>) {
    return index >= static_cast<C>(-depth) && index < static_cast<C>(depth);
  } else if constexpr (std::is_unsigned_v<C>) {
    return static_cast<uint64_t>(index) < static_cast<uint64_t>(depth);
  } else {
    return index >= -depth && index < depth;
  }
}

// An index out of range gives a line of off values, as ONNX requires.
Result<std::unique_ptr<Kernel>> make_one_hot(const KernelSetup& setup) {
  const Shape &indices = setup.input(0).shape, &out = setup.output(0).shape;
  const int axis = one_hot_axis(setup.attrs(), indices.rank());
  const int64_t outer = indices.elements(0, axis), inner = indices.elements(axis, indices.rank()),
                depth = out[axis];
  const DType index_dtype = setup.input(0).dtype, dtype = setup.output(0).dtype;
  return make_kernel([=](KernelContext& context) {
    // Input 2 holds the off value and the on value. All of y becomes off, and then one element per
    // index becomes on.
    dispatch_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      const T off = context.in<T>(2)[0], on = context.in<T>(2)[1];
      T* y = context.out<T>(0);
      std::fill_n(y, outer * depth * inner, off);
      dispatch_dtype(index_dtype, [&](auto index_tag) {
        const auto* index = context.in<decltype(index_tag)>(0);
        for (int64_t j = 0; j < outer * inner; ++j) {
          const auto given = load(index[j]);
          if (!in_range(given, depth)) continue;
          int64_t at = static_cast<int64_t>(given);
          if (at < 0) at += depth;
          y[(j / inner * depth + at) * inner + j % inner] = on;
        }
      });
    });
    return Progress::done;
  });
}

template <typename K>
Result<std::unique_ptr<Kernel>> make_of(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(setup));
}

}  // namespace

void add_gather_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Gather", "cpu", make_of<GatherKernel>);
  catalogue.add_kernel("leat.ReadRows", "cpu", make_of<GatherKernel>);
  catalogue.add_kernel("leat.GatherGrad", "cpu", make_of<GatherGradKernel>);
  catalogue.add_kernel("GatherElements", "cpu", make_gather_elements);
  catalogue.add_kernel("leat.GatherElementsGrad", "cpu", make_gather_elements_grad);
  catalogue.add_kernel("OneHot", "cpu", make_one_hot);
}

}  // namespace leat
