#include "ops/images/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>

#include "devices/base/text.h"
#include "ops/images/resize_rows.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 5> kFilterNames = {"nearest", "area", "bilinear", "bicubic",
                                                          "lanczos"};

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= M_PI;
  return std::sin(x) / x;
}

// The value of a filter at a distance from its middle, in input pixels of the filter's own scale.
double filter_at(ResizeFilter filter, double x) {
  constexpr double a = -0.5;  // Keys' bicubic, as in Pillow
  const double distance = std::abs(x);
  switch (filter) {
    case ResizeFilter::area:
      return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case ResizeFilter::bilinear:
      return distance < 1.0 ? 1.0 - distance : 0.0;
    case ResizeFilter::bicubic:
      x = distance;
      if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
      return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
    case ResizeFilter::lanczos:
      return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    case ResizeFilter::nearest:
      break;
  }
  return 0.0;
}

double support_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::area:
      return 0.5;
    case ResizeFilter::bilinear:
      return 1.0;
    case ResizeFilter::bicubic:
      return 2.0;
    default:
      return 3.0;
  }
}

Status check_resize(const ImageView& image, const ResizeBox& box, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kImageSide || height > kImageSide) {
    return invalid_argument(cat("resize: expected 1 to ", kImageSide, " rows and columns, ",
                                "received ", width, "x", height));
  }
  if (image.channels != 1 && image.channels != 3)
    return invalid_argument(cat("resize: expected 1 or 3 channels, received ", image.channels));
  // Comparisons that are true, so that NaN fails them.
  const bool inside = box.left >= 0 && box.top >= 0 && box.left < box.right &&
                      box.top < box.bottom && box.right <= static_cast<float>(image.width) &&
                      box.bottom <= static_cast<float>(image.height);
  if (inside) return {};
  return invalid_argument(cat("resize: expected a box within ", image.width, "x", image.height,
                              " pixels, received ", box.left, ",", box.top, " to ", box.right, ",",
                              box.bottom));
}

// The input pixel of each output pixel; the sums are Pillow's, rounding errors and all.
std::vector<int32_t> nearest_pixels(int64_t in, float begin, float end, int64_t out) {
  std::vector<int32_t> pixels(static_cast<size_t>(out));
  const double step = (static_cast<double>(end) - begin) / static_cast<double>(out);
  double at = begin + step * 0.5;
  for (int32_t& pixel : pixels) {
    pixel = static_cast<int32_t>(std::min(static_cast<double>(in - 1), std::max(0.0, at)));
    at += step;
  }
  return pixels;
}

void resize_nearest(const ImageView& image, const ResizeBox& box, int64_t width, int64_t height,
                    std::span<uint8_t> out) {
  const auto columns = nearest_pixels(image.width, box.left, box.right, width),
             rows = nearest_pixels(image.height, box.top, box.bottom, height);
  uint8_t* to = out.data();
  for (const int32_t row : rows) {
    for (const int32_t column : columns) {
      const uint8_t* from = image.row(row) + column * image.channels;
      to = std::copy_n(from, image.channels, to);
    }
  }
}

}  // namespace

std::string_view resize_filter_name(ResizeFilter filter) {
  return kFilterNames[static_cast<size_t>(filter)];
}

std::optional<ResizeFilter> resize_filter_from_name(std::string_view name) {
  const auto found = std::find(kFilterNames.begin(), kFilterNames.end(), name);
  if (found == kFilterNames.end()) return std::nullopt;
  return static_cast<ResizeFilter>(found - kFilterNames.begin());
}

ExactWeights exact_weights(int64_t in, float begin, float end, int64_t out, ResizeFilter filter) {
  ExactWeights all;
  if (filter == ResizeFilter::nearest) {
    const auto pixels = nearest_pixels(in, begin, end, out);
    all.stride = 1;
    all.firsts.assign(pixels.begin(), pixels.end());
    all.counts.assign(pixels.size(), 1);
    all.weights.assign(pixels.size(), 1);
    return all;
  }
  // The expressions are those of Pillow's precompute_coeffs(), so that the bits are.
  const double scale = static_cast<double>(end - begin) / static_cast<double>(out),
               filter_scale = std::max(scale, 1.0), support = support_of(filter) * filter_scale,
               inverse = 1.0 / filter_scale;
  all.stride = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  all.weights.resize(static_cast<size_t>(out * all.stride));
  for (int64_t x = 0; x < out; ++x) {
    const double center = begin + (static_cast<double>(x) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5)),
                  last = std::min<int64_t>(in, static_cast<int64_t>(center + support + 0.5)),
                  count = std::min(all.stride, last - first);
    all.firsts.push_back(first);
    all.counts.push_back(count);
    double* const weights = all.weights.data() + x * all.stride;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      weights[i] = filter_at(filter, (static_cast<double>(i + first) - center + 0.5) * inverse);
      sum += weights[i];
    }
    for (int64_t i = 0; i < count && sum != 0.0; ++i) weights[i] /= sum;
  }
  return all;
}

ResizeWeights::ResizeWeights(int64_t in, float begin, float end, int64_t out, ResizeFilter filter)
    : in_(in), out_(out), begin_(begin), end_(end), filter_(filter) {
  const ExactWeights exact = exact_weights(in, begin, end, out, filter);
  padded_ = (exact.stride + 3) / 4 * 4;
  weights_.resize(static_cast<size_t>(out * padded_));
  halves_.resize(static_cast<size_t>(2 * out * padded_));
  for (int64_t x = 0; x < out; ++x) {
    const auto at = static_cast<size_t>(x);
    const int64_t count = exact.counts[at];
    windows_.push_back({static_cast<int32_t>(exact.firsts[at]), static_cast<int32_t>(count)});
    int32_t* weights = weights_.data() + x * padded_;
    int16_t *upper = halves_.data() + 2 * x * padded_, *lower = upper + padded_;
    for (int64_t i = 0; i < count; ++i) {
      const double weight = exact.weights[static_cast<size_t>(x * exact.stride + i)];
      weights[i] =
          static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kResizePrecision));
      upper[i] = static_cast<int16_t>(weights[i] >> kResizeLowerBits);
      lower[i] = static_cast<int16_t>(weights[i] & ((1 << kResizeLowerBits) - 1));
    }
  }
}

bool ResizeWeights::fit(int64_t in, float begin, float end, int64_t out,
                        ResizeFilter filter) const {
  return in == in_ && begin == begin_ && end == end_ && out == out_ && filter == filter_;
}

// The pass along rows, for the rows that the pass along columns needs.
void Resizer::across(const ImageView& image, int64_t first_row, int64_t rows) {
  const int64_t out_bytes = static_cast<int64_t>(between_.size() - kResizeSlack) / rows,
                in_bytes = image.width * image.channels, width = out_bytes / image.channels;
  for (int64_t y = 0; y < rows; ++y) {
    const uint8_t* in = image.row(first_row + y);
    // Rows are read in blocks, some bytes beyond their ends, where the image may end.
    const int64_t below = (image.height - 1 - first_row - y) * image.stride;
    if (below < static_cast<int64_t>(kResizeSlack)) {
      last_row_.resize(static_cast<size_t>(in_bytes) + kResizeSlack);
      in = std::copy_n(in, in_bytes, last_row_.data()) - in_bytes;
    }
    resize_row(in, image.channels, across_, width, between_.data() + y * out_bytes);
  }
}

Status Resizer::resize(const ImageView& image, const std::optional<ResizeBox>& part, int64_t width,
                       int64_t height, ResizeFilter filter, std::span<uint8_t> out) {
  const ResizeBox box = part.value_or(
      ResizeBox{0, 0, static_cast<float>(image.width), static_cast<float>(image.height)});
  LEAT_RETURN_IF_ERROR(check_resize(image, box, width, height));
  if (filter == ResizeFilter::nearest) {
    resize_nearest(image, box, width, height, out);
    return {};
  }
  const bool wide = width != image.width || box.left != 0 || box.right != image.width,
             high = height != image.height || box.top != 0 || box.bottom != image.height;
  const int64_t row_bytes = width * image.channels;
  try {
    if (wide && !across_.fit(image.width, box.left, box.right, width, filter))
      across_ = ResizeWeights(image.width, box.left, box.right, width, filter);
    if (high && !down_.fit(image.height, box.top, box.bottom, height, filter))
      down_ = ResizeWeights(image.height, box.top, box.bottom, height, filter);
    const auto last = high ? down_.window(height - 1) : ResizeWeights::Window{};
    const int64_t first = high ? down_.window(0).first : 0,
                  rows = high ? last.first + last.count - first : height;
    ImageView between = image;
    if (wide) {
      between_.resize(static_cast<size_t>(rows * row_bytes) + kResizeSlack);
      across(image, first, rows);
      between = {between_.data() - first * row_bytes, width, image.height, image.channels,
                 row_bytes};
    }
    for (int64_t y = 0; y < height; ++y) {
      uint8_t* to = out.data() + y * row_bytes;
      if (high) {
        resize_column(between, down_, y, row_bytes, to);
      } else {
        std::memcpy(to, between.row(y), static_cast<size_t>(row_bytes));
      }
    }
  } catch (const std::bad_alloc&) {
    return resource_exhausted(
        cat("resize: expected memory for ", width, "x", height, " pixels, there is none"));
  }
  return {};
}

void copy_to_planes(const ImageView& image, bool mirrored, std::span<uint8_t> out) {
  const int64_t plane = image.width * image.height;
  for (int64_t y = 0; y < image.height; ++y)
    split_row(image.row(y), image.width, image.channels, mirrored, out.data() + y * image.width,
              plane);
}

}  // namespace leat
