// CPU kernels of ops/definitions/deform.cc. A tile of the columns is one element of the windows for
// a group of channels of an image; a tile of the gradient is such a group, since windows add to
// common elements.
#include "ops/definitions/deform.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/elements/grid_taps.h"

namespace leat {
namespace {

// The sizes of a node, and the elements that its windows read.
class DeformSizes {
 public:
  DeformSizes(DeformWindow of, const Shape& x, const Shape& offset)
      : window_(std::move(of)), images(x[0]), channels(x[1]), groups(window_.offset_groups) {
    for (int d = 0; d < axes(); ++d) {
      size[d] = x[d + 2];
      outputs_[d] = offset[d + 2];
    }
    elements = x.elements(2, x.rank());
    places = offset.elements(2, offset.rank());
    kernel = window_.elements();
    in_group = channels / groups;
  }
  int axes() const { return window_.axes(); }

  // Calls act(place, taps) for each window, with the elements that its element k reads on each
  // axis. `offsets` are those of that element, for one axis after the other.
  template <typename T, typename F>
  void each_place(int64_t k, const T* offsets, F&& act) const {
    int64_t in_kernel[kMostDeformAxes] = {};
    for (int d = axes() - 1; d >= 0; --d) {
      const int64_t of = window_.kernel[static_cast<size_t>(d)];
      in_kernel[d] = k % of;
      k /= of;
    }
    for (int64_t p = 0; p < places; ++p) {
      AxisTaps taps[kMostSampleAxes];
      int64_t rest = p;
      for (int d = axes() - 1; d >= 0; --d) {
        const auto i = static_cast<size_t>(d);
        const int64_t output = rest % outputs_[d];
        rest /= outputs_[d];
        const int64_t first =
            output * window_.strides[i] - window_.pads[i] + in_kernel[d] * window_.dilations[i];
        taps[d] = taps_at(static_cast<double>(first) + static_cast<double>(offsets[d * places + p]),
                          size[d]);
      }
      act(p, taps);
    }
  }

 private:
  // Linear interpolation, with zeros outside.
  static AxisTaps taps_at(double at, int64_t size) {
    AxisTaps taps;
    if (!(at > -1 && at < static_cast<double>(size))) return taps;
    const double below = std::floor(at), rest = at - below;
    const auto first = static_cast<int64_t>(below);
    taps.count = 2;
    taps.index[0] = first;  // -1 outside
    taps.index[1] = first + 1 < size ? first + 1 : -1;
    taps.weight[0] = 1 - rest;
    taps.weight[1] = rest;
    taps.slope[0] = -1;
    taps.slope[1] = 1;
    return taps;
  }

  DeformWindow window_;
  int64_t outputs_[kMostDeformAxes] = {1, 1, 1};

 public:
  int64_t images, channels, groups;  // groups of offsets
  int64_t size[kMostDeformAxes] = {1, 1, 1};
  // Of an image, of windows, of elements in a window, of channels in a group of offsets.
  int64_t elements = 0, places = 0, kernel = 0, in_group = 0;
};

bool all_inside(const AxisTaps* taps, int axes) {
  for (int d = 0; d < axes; ++d) {
    if (taps[d].count == 0) return false;
  }
  return true;
}

template <typename T>
class DeformColumnsKernel final : public Kernel {
 public:
  DeformColumnsKernel(DeformSizes sizes, const OpTypes& types)
      : s_(std::move(sizes)), masked_(types.has_input(3)) {}
  int tiles(int) const override {
    return static_cast<int>(std::max<int64_t>(1, s_.images * s_.groups * s_.kernel));
  }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t n = tile / (s_.groups * s_.kernel), group = tile / s_.kernel % s_.groups,
                  k = tile % s_.kernel;
    if (n >= s_.images) return Progress::done;
    const int64_t first = n * s_.channels + group * s_.in_group;
    const T* const x = context.in<T>(0) + first * s_.elements;
    const T* const mask = masked_ ? context.in<T>(3) + tile * s_.places : nullptr;
    T* const y = context.out<T>(0) + (first * s_.kernel + k) * s_.places;
    const int64_t of_channel = s_.kernel * s_.places;
    s_.each_place(
        k, context.in<T>(1) + tile * s_.axes() * s_.places, [&](int64_t p, const AxisTaps* taps) {
          for (int64_t c = 0; c < s_.in_group; ++c) y[c * of_channel + p] = 0;
          if (!all_inside(taps, s_.axes())) return;
          const T factor = mask ? mask[p] : T(1);
          each_tap(taps, s_.axes(), s_.size, [&](int64_t at, double weight, const double*) {
            const T share = static_cast<T>(weight) * factor;
            for (int64_t c = 0; c < s_.in_group; ++c)
              y[c * of_channel + p] += share * x[c * s_.elements + at];
          });
        });
    return Progress::done;
  }

 private:
  const DeformSizes s_;
  const bool masked_;
};

template <typename T>
class DeformColumnsGradKernel final : public Kernel {
 public:
  DeformColumnsGradKernel(DeformSizes sizes, const OpTypes& types)
      : s_(std::move(sizes)), masked_(types.has_input(4)), dmask_(types.has_output(2)) {}
  int tiles(int) const override {
    return static_cast<int>(std::max<int64_t>(1, s_.images * s_.groups));
  }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t n = tile / s_.groups, group = tile % s_.groups;
    if (n >= s_.images) return Progress::done;
    const int64_t first = n * s_.channels + group * s_.in_group;
    std::fill_n(context.out<T>(0) + first * s_.elements, s_.in_group * s_.elements, T(0));
    for (int64_t k = 0; k < s_.kernel; ++k) run_element(context, tile, first, k);
    return Progress::done;
  }

 private:
  // Element k of the windows, for the channels of a tile from `first` on.
  void run_element(KernelContext& context, int64_t tile, int64_t first, int64_t k) const {
    const int64_t row = tile * s_.kernel + k, of_channel = s_.kernel * s_.places;
    const T* const dy = context.in<T>(0) + (first * s_.kernel + k) * s_.places;
    const T* const x = context.in<T>(1) + first * s_.elements;
    const T* const mask = masked_ ? context.in<T>(4) + row * s_.places : nullptr;
    T* const dx = context.out<T>(0) + first * s_.elements;
    T* const doffset = context.out<T>(1) + row * s_.axes() * s_.places;
    T* const dmask = dmask_ ? context.out<T>(2) + row * s_.places : nullptr;
    s_.each_place(k, context.in<T>(2) + row * s_.axes() * s_.places,
                  [&](int64_t p, const AxisTaps* taps) {
                    const T factor = mask ? mask[p] : T(1);
                    T sum = 0, moves[kMostDeformAxes] = {};
                    if (all_inside(taps, s_.axes())) {
                      each_tap(taps, s_.axes(), s_.size,
                               [&](int64_t at, double weight, const double* slopes) {
                                 const T share = static_cast<T>(weight);
                                 T products = 0;
                                 for (int64_t c = 0; c < s_.in_group; ++c) {
                                   const T g = dy[c * of_channel + p];
                                   dx[c * s_.elements + at] += share * factor * g;
                                   products += x[c * s_.elements + at] * g;
                                 }
                                 sum += share * products;
                                 for (int d = 0; d < s_.axes(); ++d)
                                   moves[d] += static_cast<T>(slopes[d]) * factor * products;
                               });
                    }
                    for (int d = 0; d < s_.axes(); ++d) doffset[d * s_.places + p] = moves[d];
                    if (dmask) dmask[p] = sum;
                  });
  }

  const DeformSizes s_;
  const bool masked_, dmask_;
};

// `kX` is the index of X; the offsets, the kernel and the mask follow it.
template <template <typename> class K, int kX>
Result<std::unique_ptr<Kernel>> make_deform_columns(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(DeformWindow window, deform_window_of(setup, kX, kX + 2));
  DeformSizes sizes(std::move(window), setup.input(kX).shape, setup.input(kX + 1).shape);
  const auto make = [sizes](const KernelSetup& of) -> Result<std::unique_ptr<Kernel>> {
    if (of.input(0).dtype == DType::f64)
      return std::unique_ptr<Kernel>(std::make_unique<K<double>>(sizes, of.types));
    return std::unique_ptr<Kernel>(std::make_unique<K<float>>(sizes, of.types));
  };
  // The kernel in float is made without constants, such as the sizes of the windows.
  return is_16bit_float(setup.input(0).dtype) ? compute_in_f32(setup, make) : make(setup);
}

}  // namespace

void add_deform_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.DeformColumns", "cpu", make_deform_columns<DeformColumnsKernel, 0>);
  catalogue.add_kernel("leat.DeformColumnsGrad", "cpu",
                       make_deform_columns<DeformColumnsGradKernel, 1>);
}

}  // namespace leat
