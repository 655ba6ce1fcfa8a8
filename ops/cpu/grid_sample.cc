// CPU kernels of ops/definitions/grid_sample.cc. A tile of the forward op is a block of places of
// one row of the batch; a tile of the gradient is a row, since places add to common elements.
#include "ops/definitions/grid_sample.h"

#include <algorithm>

#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"

namespace leat {
namespace {

constexpr int64_t kPlacesOfTile = 512;

// The sizes of a node, and the elements that a place reads.
struct Samples {
  Samples(const GridSampleSpec& of, const Shape& x, const Shape& grid)
      : spec(of), axes(x.rank() - 2), rows(x[0]), channels(x[1]) {
    for (int d = 0; d < axes; ++d) size[d] = x[d + 2];
    elements = x.elements(2, x.rank());
    places = grid.elements(1, grid.rank() - 1);
  }

  // The taps of each axis at a place, whose coordinates are in the order from the last axis.
  template <typename T>
  void find(const T* coordinates, AxisTaps* taps) const {
    for (int d = 0; d < axes; ++d)
      taps[d] = axis_taps(spec, static_cast<double>(coordinates[axes - 1 - d]), size[d]);
  }

  template <typename F>
  void each(const AxisTaps* taps, F&& act) const {
    each_tap(taps, axes, size, act);
  }

  const GridSampleSpec spec;
  const int axes;
  const int64_t rows, channels;
  int64_t size[kMostSampleAxes] = {1, 1, 1};
  int64_t elements = 0, places = 0;
};

template <typename T>
class GridSampleKernel final : public Kernel {
 public:
  explicit GridSampleKernel(const Samples& samples) : s_(samples) {}
  int tiles(int) const override {
    return static_cast<int>(std::max<int64_t>(1, s_.rows * tile_count(s_.places, kPlacesOfTile)));
  }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t blocks = tile_count(s_.places, kPlacesOfTile), n = tile / blocks;
    if (n >= s_.rows) return Progress::done;
    const int64_t first = tile % blocks * kPlacesOfTile;
    const T* const x = context.in<T>(0) + n * s_.channels * s_.elements;
    T* const y = context.out<T>(0) + n * s_.channels * s_.places;
    for (int64_t p = first; p < std::min(first + kPlacesOfTile, s_.places); ++p) {
      for (int64_t c = 0; c < s_.channels; ++c) y[c * s_.places + p] = 0;
      if (s_.elements == 0) continue;
      AxisTaps taps[kMostSampleAxes];
      s_.find(context.in<T>(1) + (n * s_.places + p) * s_.axes, taps);
      s_.each(taps, [&](int64_t offset, double weight, const double*) {
        const T factor = static_cast<T>(weight);
        for (int64_t c = 0; c < s_.channels; ++c)
          y[c * s_.places + p] += factor * x[c * s_.elements + offset];
      });
    }
    return Progress::done;
  }

 private:
  const Samples s_;
};

template <typename T>
class GridSampleGradKernel final : public Kernel {
 public:
  explicit GridSampleGradKernel(const Samples& samples) : s_(samples) {}
  int tiles(int) const override { return static_cast<int>(std::max<int64_t>(1, s_.rows)); }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t n = tile;
    if (n >= s_.rows) return Progress::done;
    const T* const dy = context.in<T>(0) + n * s_.channels * s_.places;
    const T* const x = context.in<T>(1) + n * s_.channels * s_.elements;
    T* const dx = context.out<T>(0) + n * s_.channels * s_.elements;
    std::fill_n(dx, s_.channels * s_.elements, T(0));
    for (int64_t p = 0; p < s_.places; ++p) {
      const int64_t at = (n * s_.places + p) * s_.axes;
      T* const dgrid = context.out<T>(1) + at;
      std::fill_n(dgrid, s_.axes, T(0));
      if (s_.elements == 0) continue;
      AxisTaps taps[kMostSampleAxes];
      s_.find(context.in<T>(2) + at, taps);
      s_.each(taps, [&](int64_t offset, double weight, const double* slopes) {
        const T factor = static_cast<T>(weight);
        T sum = 0;
        for (int64_t c = 0; c < s_.channels; ++c) {
          const T g = dy[c * s_.places + p];
          dx[c * s_.elements + offset] += factor * g;
          sum += x[c * s_.elements + offset] * g;
        }
        for (int d = 0; d < s_.axes; ++d) dgrid[s_.axes - 1 - d] += static_cast<T>(slopes[d]) * sum;
      });
    }
    return Progress::done;
  }

 private:
  const Samples s_;
};

// `kX` is the index of X; the grid follows it.
template <template <typename> class K, int kX>
Result<std::unique_ptr<Kernel>> make_grid_sample(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return compute_in_f32(setup, make_grid_sample<K, kX>);
  LEAT_ASSIGN_OR_RETURN(const GridSampleSpec spec, grid_sample_spec_of(setup, kX));
  const Shape &x = setup.input(kX).shape, &grid = setup.input(kX + 1).shape;
  const Samples samples(spec, x, grid);
  if (setup.input(0).dtype == DType::f64)
    return std::unique_ptr<Kernel>(std::make_unique<K<double>>(samples));
  return std::unique_ptr<Kernel>(std::make_unique<K<float>>(samples));
}

}  // namespace

void add_grid_sample_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("GridSample", "cpu", make_grid_sample<GridSampleKernel, 0>);
  catalogue.add_kernel("leat.GridSampleGrad", "cpu", make_grid_sample<GridSampleGradKernel, 1>);
}

}  // namespace leat
