// CPU kernels of MaxRoiPool and its gradient (ops/definitions/roi.cc). A tile of the pooling is one
// region. A tile of a gradient of X is a few channels of an image, to which
// its regions add in their order.
#include <algorithm>
#include <cmath>
#include <string>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/roi.h"

namespace leat {
namespace {

// The elements that a bin of a region covers, [begin, end) on each axis.
struct RoiBin {
  int64_t begin[2], end[2];
};

// A region of MaxRoiPool: whole elements of X, its ends included.
struct WholeRoi {
  template <typename T>
  bool find(double scale, const T* roi) {
    for (int d = 0; d < 2; ++d) {
      const double from = std::round(static_cast<double>(roi[2 - d]) * scale),
                   to = std::round(static_cast<double>(roi[4 - d]) * scale);
      if (!(std::abs(from) <= roi::kFarthest && std::abs(to) <= roi::kFarthest)) return false;
      start[d] = static_cast<int64_t>(from);
      length[d] = std::max(to - from + 1, 1.0);
    }
    return true;
  }
  RoiBin bin(const roi::Sizes& s, int64_t i) const {
    const int64_t at[2] = {i / s.bins[1], i % s.bins[1]};
    RoiBin bin;
    for (int d = 0; d < 2; ++d) {
      const double width = length[d] / static_cast<double>(s.bins[d]);
      const auto from = static_cast<int64_t>(std::floor(static_cast<double>(at[d]) * width)),
                 to = static_cast<int64_t>(std::ceil(static_cast<double>(at[d] + 1) * width));
      bin.begin[d] = std::clamp<int64_t>(start[d] + from, 0, s.size[d]);
      bin.end[d] = std::clamp<int64_t>(start[d] + to, 0, s.size[d]);
    }
    return bin;
  }
  int64_t start[2];
  double length[2];
};

// The place of the largest element of a bin, the first of several; -1 if the bin is empty.
template <typename T>
int64_t largest_of(const RoiBin& bin, const T* plane, int64_t width) {
  int64_t best = -1;
  for (int64_t h = bin.begin[0]; h < bin.end[0]; ++h) {
    for (int64_t w = bin.begin[1]; w < bin.end[1]; ++w) {
      const int64_t at = h * width + w;
      if (best < 0 || plane[at] > plane[best]) best = at;
    }
  }
  return best;
}

// The image of a region, or -1 if the step has failed.
template <typename T>
int64_t find_whole_roi(KernelContext& context, const std::string& subject, const roi::Sizes& s,
                       double scale, const T* roi, WholeRoi& out) {
  const auto image = static_cast<double>(roi[0]);
  if (image >= 0 && image < static_cast<double>(s.images) && out.find(scale, roi))
    return static_cast<int64_t>(image);
  context.step->fail(context.instruction,
                     invalid_argument(cat(subject, ": rois: expected images 0 to ", s.images - 1,
                                          " and finite coordinates, received image ", image)));
  return -1;
}

template <typename T>
class MaxRoiPoolKernel final : public Kernel {
 public:
  MaxRoiPoolKernel(const KernelSetup& setup, const Shape& x, const Shape& y)
      : s_(x, y), scale_(attr_float(setup.attrs(), "spatial_scale", 1)), subject_(setup.subject) {}
  int tiles(int) const override { return tile_count(s_.regions, 1); }
  Progress run(KernelContext& context, int, int tile) override {
    if (tile >= s_.regions) return Progress::done;
    WholeRoi roi;
    const int64_t image =
        find_whole_roi(context, subject_, s_, scale_, context.in<T>(1) + 5 * tile, roi);
    if (image < 0) return Progress::failed;
    const T* const x = context.in<T>(0) + image * s_.channels * s_.plane();
    T* const y = context.out<T>(0) + tile * s_.channels * s_.places();
    for (int64_t i = 0; i < s_.places(); ++i) {
      const RoiBin bin = roi.bin(s_, i);
      for (int64_t c = 0; c < s_.channels; ++c) {
        const T* const plane = x + c * s_.plane();
        const int64_t at = largest_of(bin, plane, s_.size[1]);
        y[c * s_.places() + i] = at < 0 ? T(0) : plane[at];
      }
    }
    return Progress::done;
  }

 private:
  const roi::Sizes s_;
  const double scale_;
  const std::string subject_;
};

template <typename T>
class MaxRoiPoolGradKernel final : public Kernel {
 public:
  MaxRoiPoolGradKernel(const KernelSetup& setup, const Shape& x, const Shape& y)
      : s_(x, y), scale_(attr_float(setup.attrs(), "spatial_scale", 1)), subject_(setup.subject) {}
  int tiles(int) const override { return roi::ImageTile::count(s_); }
  Progress run(KernelContext& context, int, int tile) override {
    const auto [image, first, end] = roi::ImageTile(s_, tile);
    if (image >= s_.images) return Progress::done;
    const T* const x = context.in<T>(1) + image * s_.channels * s_.plane();
    T* const dx = context.out<T>(0) + image * s_.channels * s_.plane();
    std::fill(dx + first * s_.plane(), dx + end * s_.plane(), T(0));
    for (int64_t region = 0; region < s_.regions; ++region) {
      WholeRoi roi;
      const int64_t of =
          find_whole_roi(context, subject_, s_, scale_, context.in<T>(2) + 5 * region, roi);
      if (of < 0) return Progress::failed;
      if (of != image) continue;
      const T* const dy = context.in<T>(0) + region * s_.channels * s_.places();
      for (int64_t i = 0; i < s_.places(); ++i) {
        const RoiBin bin = roi.bin(s_, i);
        for (int64_t c = first; c < end; ++c) {
          const int64_t at = largest_of(bin, x + c * s_.plane(), s_.size[1]);
          if (at >= 0) dx[c * s_.plane() + at] += dy[c * s_.places() + i];
        }
      }
    }
    return Progress::done;
  }

 private:
  const roi::Sizes s_;
  const double scale_;
  const std::string subject_;
};

}  // namespace

void add_max_roi_pool_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("MaxRoiPool", "cpu", roi::make_kernel_of<MaxRoiPoolKernel, false>);
  catalogue.add_kernel("leat.MaxRoiPoolGrad", "cpu",
                       roi::make_kernel_of<MaxRoiPoolGradKernel, true>);
}

}  // namespace leat
