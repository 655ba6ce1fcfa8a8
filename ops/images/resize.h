// Resizing of 8-bit images, with the bits of Pillow's Image.resize().
//
// Each pixel of the result is a weighted mean of pixels of the input: along rows first, then along
// columns, with 22 bits behind the point in each weight and rounding to 8 bits after either pass.
// If the result is smaller than the input, the filter grows with the factor, so that nothing of the
// input is skipped (which others call antialiasing). `nearest` takes one pixel and has no filter.
//
//   Resizer resizer;
//   LEAT_RETURN_IF_ERROR(resizer.resize(image.view(), {}, 224, 224, ResizeFilter::bilinear, out));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/images/image.h"

namespace leat {

// The names are those of the job file; Pillow calls `area` BOX.
enum class ResizeFilter { nearest, area, bilinear, bicubic, lanczos };
std::string_view resize_filter_name(ResizeFilter filter);
std::optional<ResizeFilter> resize_filter_from_name(std::string_view name);
inline constexpr std::string_view kResizeFilters =
    "'nearest', 'area', 'bilinear', 'bicubic' or 'lanczos'";

// A rectangle of an image whose borders may lie within pixels, as Pillow's argument `box`. Filters
// reach beyond it, as far as the image goes. To leave out what lies beside a part, resize
// ImageView::part() instead.
struct ResizeBox {
  float left = 0, top = 0, right = 0, bottom = 0;
};

// The weights of one pass before they are rounded: pixel x of the result is the sum of `counts[x]`
// input pixels from `firsts[x]` on, times the weights from x * stride on.
// REQUIRES: 0 <= begin < end <= in, and at least one output pixel.
struct ExactWeights {
  int64_t stride = 0;
  std::vector<int64_t> firsts, counts;
  std::vector<double> weights;
};
ExactWeights exact_weights(int64_t in, float begin, float end, int64_t out, ResizeFilter filter);

// The weights of one pass: for each pixel of the result, the input pixels that it is made of.
// Immutable once it is made.
class ResizeWeights {
 public:
  ResizeWeights() = default;
  // From [begin, end) of `in` pixels to `out` pixels. REQUIRES: as Resizer::resize(); the filter is
  // not nearest.
  ResizeWeights(int64_t in, float begin, float end, int64_t out, ResizeFilter filter);
  // True if these are the weights that the arguments would make.
  bool fit(int64_t in, float begin, float end, int64_t out, ResizeFilter filter) const;

  struct Window {
    int32_t first = 0, count = 0;  // of input pixels
  };
  const Window& window(int64_t out) const { return windows_[static_cast<size_t>(out)]; }
  // The weights of an output pixel: as many as its window has pixels, and zeros up to padded().
  const int32_t* weights(int64_t out) const {
    return weights_.data() + static_cast<size_t>(out * padded_);
  }
  // The same ones, each as (upper, lower) parts of 16 bits: weight = upper x 2^11 + lower, with
  // 0 <= lower < 2^11. All upper parts of a pixel come first, then all lower ones.
  const int16_t* halves(int64_t out) const {
    return halves_.data() + static_cast<size_t>(2 * out * padded_);
  }
  int64_t padded() const { return padded_; }  // a multiple of 4

 private:
  int64_t in_ = 0, out_ = 0, padded_ = 0;
  float begin_ = 0, end_ = 0;
  ResizeFilter filter_ = ResizeFilter::nearest;
  std::vector<Window> windows_;
  std::vector<int32_t> weights_;
  std::vector<int16_t> halves_;
};

// Resizes images one after the other. It keeps the weights of the last size, and memory for the
// pixels between the passes. Threads: one at a time.
class Resizer {
 public:
  // Writes width x height pixels to `out`, row by row, with the channels of a pixel side by side,
  // as in the input. An empty box means all of the image. invalid_argument for a box that is empty
  // or leaves the image, sizes that are not within 1 to kImageSide, or channels that are neither 1
  // nor 3; resource_exhausted without memory. REQUIRES: out.size() is width x height x channels.
  Status resize(const ImageView& image, const std::optional<ResizeBox>& box, int64_t width,
                int64_t height, ResizeFilter filter, std::span<uint8_t> out);

 private:
  void across(const ImageView& image, int64_t first_row, int64_t rows);

  ResizeWeights across_, down_;
  std::vector<uint8_t> between_, last_row_;
};

// Copies an image to planes: all first channels, then all second ones, and so on, each from left to
// right or, if `mirrored`, from right to left. REQUIRES: out.size() is width x height x channels.
void copy_to_planes(const ImageView& image, bool mirrored, std::span<uint8_t> out);

}  // namespace leat
