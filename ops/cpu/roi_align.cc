// CPU kernels of RoiAlign and its gradients (ops/definitions/roi.cc). A tile of the pooling, and of
// the gradient of regions, is one region. A tile of a gradient of X is a few channels of an image,
// to which its regions add in their order.
#include <algorithm>
#include <cmath>
#include <string>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/roi.h"
#include "ops/definitions/roi.h"

namespace leat {
namespace {

constexpr double kMostRoiSamples = 1 << 16;  // along an axis of a bin

// Two neighbours along an axis, and the weight of the second one.
struct RoiTap {
  int64_t low = 0, high = 0;
  double weight = 0;
  bool inside = false;
  bool moves = false;  // the weight follows the coordinate
};

// The samples of a region along one axis.
struct RoiAxis {
  // The elements that sample `i` of bin `bin` reads. Coordinates up to an element outside count as
  // those of the border.
  RoiTap tap(int64_t bin, int64_t i) const {
    const double at = start + static_cast<double>(bin) * width +
                      (static_cast<double>(i) + 0.5) * width / static_cast<double>(samples);
    RoiTap tap;
    if (!(at >= -1 && at <= static_cast<double>(size)) || size == 0) return tap;
    tap.inside = true;
    const double from_border = std::max(at, 0.0);
    tap.low = std::min(static_cast<int64_t>(from_border), size - 1);
    tap.high = std::min(tap.low + 1, size - 1);
    if (tap.high == tap.low) return tap;
    tap.weight = from_border - static_cast<double>(tap.low);
    tap.moves = at > 0;
    return tap;
  }
  // How far along the region a sample is: 0 at its start, 1 at its end.
  double along(int64_t bin, int64_t i) const {
    return (static_cast<double>(bin) +
            (static_cast<double>(i) + 0.5) / static_cast<double>(samples)) /
           static_cast<double>(bins);
  }

  double start = 0, width = 0;  // of the first bin
  int64_t samples = 0, bins = 1, size = 0;
  bool forced = false;  // the region has the smallest length, whatever its end is
};

// The region of one line of rois, or nothing if no coordinates are sampled with it.
struct AlignedRoi {
  // `T` is the type that the coordinates are computed in, which decides how many samples there are.
  template <typename T>
  bool find(const RoiAlignSpec& spec, const roi::Sizes& sizes, const T* roi) {
    const T scale = static_cast<T>(spec.scale), offset = static_cast<T>(spec.half_pixel ? 0.5 : 0);
    for (int d = 0; d < 2; ++d) {
      const T start = roi[1 - d] * scale - offset, end = roi[3 - d] * scale - offset;
      if (!(std::abs(start) <= roi::kFarthest && std::abs(end) <= roi::kFarthest)) return false;
      RoiAxis& axis = axes[d];
      axis.size = sizes.size[d];
      axis.bins = sizes.bins[d];
      axis.forced = !spec.half_pixel && end - start < 1;
      const T length = axis.forced ? T(1) : end - start, bin = length / static_cast<T>(axis.bins);
      axis.start = static_cast<double>(start);
      axis.width = static_cast<double>(bin);
      const double samples = spec.samples > 0 ? static_cast<double>(spec.samples)
                                              : std::ceil(static_cast<double>(bin));
      if (samples > kMostRoiSamples) return false;
      axis.samples = std::max<int64_t>(0, static_cast<int64_t>(samples));
    }
    return true;
  }
  int64_t samples() const { return axes[0].samples * axes[1].samples; }
  // Calls act(row, column, i, j) with the taps of each sample of a bin and its number on each axis.
  template <typename F>
  void each_sample(int64_t bin, F&& act) const {
    const int64_t h = bin / axes[1].bins, w = bin % axes[1].bins;
    for (int64_t i = 0; i < axes[0].samples; ++i) {
      const RoiTap row = axes[0].tap(h, i);
      for (int64_t j = 0; j < axes[1].samples; ++j) act(row, axes[1].tap(w, j), i, j);
    }
  }

  RoiAxis axes[2];
};

// The four elements that a sample reads, with their weights and the derivatives of these by the
// sample's coordinates. Outside, all are 0.
struct RoiCorners {
  RoiCorners(const RoiTap& row, const RoiTap& column, int64_t width) {
    if (!row.inside || !column.inside) return;
    for (int k = 0; k < 4; ++k) {
      const bool below = k > 1, right = k % 2 == 1;
      place[k] = (below ? row.high : row.low) * width + (right ? column.high : column.low);
      const double y = below ? row.weight : 1 - row.weight,
                   x = right ? column.weight : 1 - column.weight;
      weight[k] = y * x;
      slope[0][k] = row.moves ? (below ? x : -x) : 0;
      slope[1][k] = column.moves ? (right ? y : -y) : 0;
    }
  }
  int64_t place[4] = {};
  double weight[4] = {}, slope[2][4] = {};
};

// The weighted corner that is the largest one of all samples of a bin, the first of several.
struct LargestCorner {
  double value = 0;
  RoiCorners corners{{}, {}, 1};
  int corner = -1;  // -1: the bin has no samples
  int64_t sample[2] = {};
};
template <typename T>
LargestCorner largest_corner(const AlignedRoi& roi, int64_t bin, const T* plane) {
  LargestCorner best;
  if (roi.axes[0].size == 0 || roi.axes[1].size == 0) return best;
  roi.each_sample(bin, [&](const RoiTap& row, const RoiTap& column, int64_t i, int64_t j) {
    const RoiCorners corners(row, column, roi.axes[1].size);
    for (int k = 0; k < 4; ++k) {
      const double value = corners.weight[k] * static_cast<double>(plane[corners.place[k]]);
      if (best.corner >= 0 && !(value > best.value)) continue;
      best = {value, corners, k, {i, j}};
    }
  });
  return best;
}

// The base of the three kernels of RoiAlign, which finds the region of a line of rois.
template <typename T>
class RoiAlignKernelBase : public Kernel {
 public:
  RoiAlignKernelBase(const KernelSetup& setup, const Shape& x, const Shape& y)
      : spec_(setup.attrs()), s_(x, y), subject_(setup.subject) {}

 protected:
  // The image of a region, whose places are left in `roi`; -1, and the step has failed, if the
  // region is none. Operand `rois` is the list of the regions, and their images follow it.
  int64_t find(KernelContext& context, int rois, int64_t region, AlignedRoi& roi) const {
    const int64_t image = context.in<int64_t>(rois + 1)[region];
    if (image < 0 || image >= s_.images) {
      return fail(context, cat("batch_indices: expected 0 to ", s_.images - 1, ", received ", image,
                               " for region ", region));
    }
    if (!roi.find(spec_, s_, context.in<T>(rois) + 4 * region)) {
      return fail(context,
                  cat("rois: expected finite coordinates and at most ",
                      static_cast<int64_t>(kMostRoiSamples),
                      " samples along an axis of a bin, received others for region ", region));
    }
    return image;
  }
  int64_t fail(KernelContext& context, const std::string& message) const {
    context.step->fail(context.instruction, invalid_argument(cat(subject_, ": ", message)));
    return -1;
  }

  const RoiAlignSpec spec_;
  const roi::Sizes s_;
  const std::string subject_;
};

template <typename T>
class RoiAlignKernel final : public RoiAlignKernelBase<T> {
 public:
  using RoiAlignKernelBase<T>::RoiAlignKernelBase;
  int tiles(int) const override { return tile_count(this->s_.regions, 1); }
  Progress run(KernelContext& context, int, int tile) override {
    const roi::Sizes& s = this->s_;
    if (tile >= s.regions) return Progress::done;
    AlignedRoi roi;
    const int64_t image = this->find(context, 1, tile, roi);
    if (image < 0) return Progress::failed;
    const T* const x = context.in<T>(0) + image * s.channels * s.plane();
    T* const y = context.out<T>(0) + tile * s.channels * s.places();
    for (int64_t bin = 0; bin < s.places(); ++bin) {
      if (this->spec_.average)
        average(roi, bin, x, y);
      else
        for (int64_t c = 0; c < s.channels; ++c)
          y[c * s.places() + bin] =
              static_cast<T>(largest_corner(roi, bin, x + c * s.plane()).value);
    }
    return Progress::done;
  }

 private:
  void average(const AlignedRoi& roi, int64_t bin, const T* x, T* y) const {
    const roi::Sizes& s = this->s_;
    for (int64_t c = 0; c < s.channels; ++c) y[c * s.places() + bin] = 0;
    if (s.plane() == 0) return;
    const double share = 1 / static_cast<double>(std::max<int64_t>(1, roi.samples()));
    roi.each_sample(bin, [&](const RoiTap& row, const RoiTap& column, int64_t, int64_t) {
      if (!row.inside || !column.inside) return;
      const RoiCorners corners(row, column, s.size[1]);
      T weight[4];
      for (int k = 0; k < 4; ++k) weight[k] = static_cast<T>(share * corners.weight[k]);
      for (int64_t c = 0; c < s.channels; ++c) {
        const T* const plane = x + c * s.plane();
        T sum = 0;
        for (int k = 0; k < 4; ++k) sum += weight[k] * plane[corners.place[k]];
        y[c * s.places() + bin] += sum;
      }
    });
  }
};

template <typename T>
class RoiAlignGradKernel final : public RoiAlignKernelBase<T> {
 public:
  using RoiAlignKernelBase<T>::RoiAlignKernelBase;
  int tiles(int) const override { return roi::ImageTile::count(this->s_); }
  Progress run(KernelContext& context, int, int tile) override {
    const roi::Sizes& s = this->s_;
    const auto [image, first, end] = roi::ImageTile(s, tile);
    if (image >= s.images) return Progress::done;
    T* const dx = context.out<T>(0) + image * s.channels * s.plane();
    std::fill(dx + first * s.plane(), dx + end * s.plane(), T(0));
    const T* const x = context.in<T>(1) + image * s.channels * s.plane();
    for (int64_t region = 0; region < s.regions; ++region) {
      AlignedRoi roi;
      const int64_t of = this->find(context, 2, region, roi);
      if (of < 0) return Progress::failed;
      if (of != image || s.plane() == 0) continue;
      const T* const dy = context.in<T>(0) + region * s.channels * s.places();
      for (int64_t bin = 0; bin < s.places(); ++bin) {
        if (this->spec_.average)
          spread(roi, bin, dy, dx, first, end);
        else
          pass_on(roi, bin, dy, x, dx, first, end);
      }
    }
    return Progress::done;
  }

 private:
  void spread(const AlignedRoi& roi, int64_t bin, const T* dy, T* dx, int64_t first,
              int64_t end) const {
    const roi::Sizes& s = this->s_;
    const double share = 1 / static_cast<double>(std::max<int64_t>(1, roi.samples()));
    roi.each_sample(bin, [&](const RoiTap& row, const RoiTap& column, int64_t, int64_t) {
      if (!row.inside || !column.inside) return;
      const RoiCorners corners(row, column, s.size[1]);
      for (int64_t c = first; c < end; ++c) {
        for (int k = 0; k < 4; ++k)
          dx[c * s.plane() + corners.place[k]] +=
              static_cast<T>(share * corners.weight[k]) * dy[c * s.places() + bin];
      }
    });
  }
  void pass_on(const AlignedRoi& roi, int64_t bin, const T* dy, const T* x, T* dx, int64_t first,
               int64_t end) const {
    const roi::Sizes& s = this->s_;
    for (int64_t c = first; c < end; ++c) {
      const LargestCorner best = largest_corner(roi, bin, x + c * s.plane());
      if (best.corner < 0) continue;
      dx[c * s.plane() + best.corners.place[best.corner]] +=
          static_cast<T>(best.corners.weight[best.corner]) * dy[c * s.places() + bin];
    }
  }
};

template <typename T>
class RoiAlignRoisGradKernel final : public RoiAlignKernelBase<T> {
 public:
  using RoiAlignKernelBase<T>::RoiAlignKernelBase;
  int tiles(int) const override { return tile_count(this->s_.regions, 1); }
  Progress run(KernelContext& context, int, int tile) override {
    const roi::Sizes& s = this->s_;
    if (tile >= s.regions) return Progress::done;
    AlignedRoi roi;
    const int64_t image = this->find(context, 2, tile, roi);
    if (image < 0) return Progress::failed;
    const T* const x = context.in<T>(1) + image * s.channels * s.plane();
    const T* const dy = context.in<T>(0) + tile * s.channels * s.places();
    double sums[4] = {};  // of x1, y1, x2, y2
    for (int64_t bin = 0; bin < s.places() && s.plane() > 0; ++bin) {
      if (this->spec_.average)
        add_average(roi, bin, x, dy, sums);
      else
        add_largest(roi, bin, x, dy, sums);
    }
    for (int k = 0; k < 4; ++k)
      context.out<T>(0)[4 * tile + k] = static_cast<T>(sums[k] * this->spec_.scale);
    return Progress::done;
  }

 private:
  // A sample moves with the start of its region and with the end, by how far along it is.
  static void add(const AlignedRoi& roi, int64_t bin, const int64_t* sample, const double* slopes,
                  double* sums) {
    const int64_t at[2] = {bin / roi.axes[1].bins, bin % roi.axes[1].bins};
    for (int d = 0; d < 2; ++d) {
      const double along = roi.axes[d].forced ? 0 : roi.axes[d].along(at[d], sample[d]);
      sums[1 - d] += (1 - along) * slopes[d];
      sums[3 - d] += along * slopes[d];
    }
  }
  void add_average(const AlignedRoi& roi, int64_t bin, const T* x, const T* dy,
                   double* sums) const {
    const roi::Sizes& s = this->s_;
    const double share = 1 / static_cast<double>(std::max<int64_t>(1, roi.samples()));
    roi.each_sample(bin, [&](const RoiTap& row, const RoiTap& column, int64_t i, int64_t j) {
      const RoiCorners corners(row, column, s.size[1]);
      double slopes[2] = {};
      for (int64_t c = 0; c < s.channels; ++c) {
        const double g = share * static_cast<double>(dy[c * s.places() + bin]);
        for (int k = 0; k < 4; ++k) {
          const double value = g * static_cast<double>(x[c * s.plane() + corners.place[k]]);
          for (int d = 0; d < 2; ++d) slopes[d] += corners.slope[d][k] * value;
        }
      }
      const int64_t sample[2] = {i, j};
      add(roi, bin, sample, slopes, sums);
    });
  }
  void add_largest(const AlignedRoi& roi, int64_t bin, const T* x, const T* dy,
                   double* sums) const {
    const roi::Sizes& s = this->s_;
    for (int64_t c = 0; c < s.channels; ++c) {
      const T* const plane = x + c * s.plane();
      const LargestCorner best = largest_corner(roi, bin, plane);
      if (best.corner < 0) continue;
      const double value = static_cast<double>(dy[c * s.places() + bin]) *
                           static_cast<double>(plane[best.corners.place[best.corner]]);
      const double slopes[2] = {best.corners.slope[0][best.corner] * value,
                                best.corners.slope[1][best.corner] * value};
      add(roi, bin, best.sample, slopes, sums);
    }
  }
};

}  // namespace

void add_roi_align_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("RoiAlign", "cpu", roi::make_kernel_of<RoiAlignKernel, false>);
  catalogue.add_kernel("leat.RoiAlignGrad", "cpu", roi::make_kernel_of<RoiAlignGradKernel, true>);
  catalogue.add_kernel("leat.RoiAlignRoisGrad", "cpu",
                       roi::make_kernel_of<RoiAlignRoisGradKernel, true>);
}

}  // namespace leat
