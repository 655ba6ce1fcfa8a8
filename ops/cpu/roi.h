// Sizes and tiles that the CPU kernels of ops/definitions/roi.cc share. Private to this folder.
#pragma once

#include <algorithm>
#include <memory>

#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/graph/kernel.h"

namespace leat::roi {

constexpr int64_t kChannelsOfTile = 8;  // of a gradient of X
constexpr double kFarthest = 1e9;       // from the first element of X, in elements

// The sizes of X and of the bins, and the regions.
struct Sizes {
  Sizes(const Shape& x, const Shape& y)
      : images(x[0]), channels(x[1]), regions(y[0]), size{x[2], x[3]}, bins{y[2], y[3]} {}
  int64_t plane() const { return size[0] * size[1]; }
  int64_t places() const { return bins[0] * bins[1]; }
  int64_t channel_blocks() const { return tile_count(channels, kChannelsOfTile); }

  int64_t images, channels, regions;
  int64_t size[2], bins[2];  // height, width
};

// The tiles of a gradient of X: each is a few channels of one image.
struct ImageTile {
  ImageTile(const Sizes& s, int tile)
      : image(tile / s.channel_blocks()),
        first(tile % s.channel_blocks() * kChannelsOfTile),
        end(std::min(s.channels, first + kChannelsOfTile)) {}
  static int count(const Sizes& s) {
    return static_cast<int>(std::max<int64_t>(1, s.images * s.channel_blocks()));
  }
  int64_t image, first, end;  // channels [first, end)
};

// `kGradient`: the node has dy in front of X.
template <template <typename> class K, bool kGradient>
Result<std::unique_ptr<Kernel>> make_kernel_of(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype))
    return compute_in_f32(setup, make_kernel_of<K, kGradient>);
  const Shape& x = setup.input(kGradient ? 1 : 0).shape;
  const Shape& y = kGradient ? setup.input(0).shape : setup.output(0).shape;
  const Shape& rois = setup.input(kGradient ? 2 : 1).shape;
  if (x[1] != y[1] || rois[0] != y[0])
    return invalid_argument(cat(setup.subject, ": ", y.to_string(), " are no bins of X ",
                                x.to_string(), " and of the regions ", rois.to_string()));
  if (setup.input(0).dtype == DType::f64)
    return std::unique_ptr<Kernel>(std::make_unique<K<double>>(setup, x, y));
  return std::unique_ptr<Kernel>(std::make_unique<K<float>>(setup, x, y));
}

}  // namespace leat::roi
