#include "ops/images/geometry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 4> kCropNames = {"none", "center", "random",
                                                        "random_resized"};

// The numbers of the draws of an image.
constexpr uint64_t kFlipDraw = 0, kXDraw = 1, kYDraw = 2, kPartDraws = 4;

// Memory that the images of a thread use one after the other.
struct ImageScratch {
  Resizer resizer;
  std::vector<uint8_t> resized, window;
};

ImageScratch& image_scratch() {
  static thread_local ImageScratch scratch;
  return scratch;
}

int64_t draw_below(const RandomStream& random, uint64_t draw, int64_t count) {
  const auto value = static_cast<int64_t>(random.uniform_f64(draw) * static_cast<double>(count));
  return std::min(value, count - 1);
}

double draw_between(const RandomStream& random, uint64_t draw, double low, double high) {
  return low + (high - low) * random.uniform_f64(draw);
}

// The largest part in the middle whose proportions are in the range.
ImagePart middle_part(const ImageHeader& header, const ImageGeometry& geometry) {
  const auto width = static_cast<double>(header.width), height = static_cast<double>(header.height);
  int64_t w = header.width, h = header.height;
  if (width / height < geometry.ratio_min) h = std::llrint(width / geometry.ratio_min);
  if (width / height > geometry.ratio_max) w = std::llrint(height * geometry.ratio_max);
  w = std::clamp<int64_t>(w, 1, header.width);
  h = std::clamp<int64_t>(h, 1, header.height);
  return {(header.width - w) / 2, (header.height - h) / 2, w, h};
}

// Copies `geometry`'s window of an image to `out`; what lies outside of the image is black.
void copy_window(const ImageView& image, int64_t x, int64_t y, const ImageGeometry& geometry,
                 bool mirrored, std::span<uint8_t> out) {
  const int64_t width = geometry.width, height = geometry.height;
  if (x >= 0 && y >= 0 && x + width <= image.width && y + height <= image.height)
    return copy_to_planes(image.part({x, y, width, height}), mirrored, out);
  std::vector<uint8_t>& window = image_scratch().window;
  const int64_t channels = image.channels, stride = width * channels;
  window.assign(static_cast<size_t>(height * stride), 0);
  const int64_t left = std::max<int64_t>(0, -x), right = std::min(width, image.width - x);
  for (int64_t row = std::max<int64_t>(0, -y); row < std::min(height, image.height - y); ++row) {
    if (left >= right) break;
    std::copy_n(image.row(y + row) + (x + left) * channels, (right - left) * channels,
                window.data() + row * stride + left * channels);
  }
  copy_to_planes({window.data(), width, height, channels, stride}, mirrored, out);
}

// The part of the image is resized to the size of the row.
Status load_resized(std::span<const std::byte> bytes, const ImagePart& part,
                    const ImageGeometry& geometry, bool mirrored, std::span<uint8_t> out) {
  LEAT_ASSIGN_OR_RETURN(const Image image, decode_image(bytes, geometry.channels, part));
  if (part.width == geometry.width && part.height == geometry.height) {
    copy_to_planes(image.view(), mirrored, out);
    return {};
  }
  ImageScratch& scratch = image_scratch();
  scratch.resized.resize(out.size());
  LEAT_RETURN_IF_ERROR(scratch.resizer.resize(image.view(), {}, geometry.width, geometry.height,
                                              geometry.filter, scratch.resized));
  copy_to_planes({scratch.resized.data(), geometry.width, geometry.height, geometry.channels,
                  geometry.width * geometry.channels},
                 mirrored, out);
  return {};
}

// The shorter side becomes `short_side` pixels, the longer one follows, rounded down.
ImageHeader resized_header(const ImageHeader& header, int64_t short_side) {
  if (short_side == 0) return header;
  const bool wide = header.width > header.height;
  const int64_t shorter = std::min(header.width, header.height),
                longer = std::max(header.width, header.height) * short_side / shorter;
  return {header.format, wide ? longer : short_side, wide ? short_side : longer};
}

// A part of the image, or of the resized one, is the row.
Status load_cropped(std::span<const std::byte> bytes, const ImageHeader& header,
                    const ImageGeometry& geometry, const RandomStream& random, bool mirrored,
                    std::span<uint8_t> out) {
  const ImageHeader size = resized_header(header, geometry.short_side);
  const int64_t pad = geometry.padding, free_x = size.width + 2 * pad - geometry.width,
                free_y = size.height + 2 * pad - geometry.height;
  if (free_x < 0 || free_y < 0 || size.width > kImageSide || size.height > kImageSide) {
    return invalid_argument(cat("an image: expected at least ", geometry.width, "x",
                                geometry.height, " pixels to crop, received ", size.width, "x",
                                size.height, " with a padding of ", pad));
  }
  // The middle as Python rounds it: halves go to the even number.
  const bool middle = geometry.crop == ImageCrop::center;
  const int64_t x = middle ? std::llrint(static_cast<double>(free_x) / 2)
                           : draw_below(random, kXDraw, free_x + 1),
                y = middle ? std::llrint(static_cast<double>(free_y) / 2)
                           : draw_below(random, kYDraw, free_y + 1);
  if (geometry.short_side == 0 && pad == 0) {
    return load_resized(bytes, {x, y, geometry.width, geometry.height}, geometry, mirrored, out);
  }
  LEAT_ASSIGN_OR_RETURN(const Image image,
                        decode_image(bytes, geometry.channels, whole_of(header)));
  ImageView view = image.view();
  ImageScratch& scratch = image_scratch();
  if (size.width != header.width || size.height != header.height) {
    const int64_t stride = size.width * geometry.channels;
    scratch.resized.resize(static_cast<size_t>(stride * size.height));
    LEAT_RETURN_IF_ERROR(scratch.resizer.resize(view, {}, size.width, size.height, geometry.filter,
                                                scratch.resized));
    view = {scratch.resized.data(), size.width, size.height, geometry.channels, stride};
  }
  copy_window(view, x - pad, y - pad, geometry, mirrored, out);
  return {};
}

}  // namespace

std::optional<ImageCrop> image_crop_from_name(std::string_view name) {
  const auto found = std::find(kCropNames.begin(), kCropNames.end(), name);
  if (found == kCropNames.end()) return std::nullopt;
  return static_cast<ImageCrop>(found - kCropNames.begin());
}

Status check_image_geometry(const ImageGeometry& geometry) {
  const auto side = [](int64_t value, int64_t least) {
    return value >= least && value <= kImageSide;
  };
  if (!side(geometry.width, 1) || !side(geometry.height, 1) ||
      geometry.width * geometry.height > kImagePixels) {
    return invalid_argument(cat("size: expected at most ", kImagePixels, " pixels, received ",
                                geometry.height, "x", geometry.width));
  }
  if (geometry.channels != 1 && geometry.channels != 3)
    return invalid_argument(cat("channels: expected 1 or 3, received ", geometry.channels));
  const bool crops = geometry.crop == ImageCrop::center || geometry.crop == ImageCrop::random;
  if (!side(geometry.short_side, 0) || !side(geometry.padding, 0) ||
      (!crops && (geometry.short_side > 0 || geometry.padding > 0))) {
    return invalid_argument(cat("short_side, padding: expected 0 to ", kImageSide,
                                " with crop: center or random, received ", geometry.short_side,
                                " and ", geometry.padding));
  }
  const bool ranges = geometry.scale_min > 0 && geometry.scale_min <= geometry.scale_max &&
                      geometry.scale_max <= 1 && geometry.ratio_min > 0 &&
                      geometry.ratio_min <= geometry.ratio_max && geometry.ratio_max <= 1e4;
  if (!ranges) {
    return invalid_argument(cat("scale, ratio: expected 0 < least <= most, at most 1 and 10000, ",
                                "received ", geometry.scale_min, " to ", geometry.scale_max,
                                " and ", geometry.ratio_min, " to ", geometry.ratio_max));
  }
  if (geometry.flip >= 0 && geometry.flip <= 1) return {};
  return invalid_argument(cat("flip: expected a probability, received ", geometry.flip));
}

ImagePart draw_resized_part(const ImageHeader& header, const ImageGeometry& geometry,
                            const RandomStream& random) {
  const double area = static_cast<double>(header.width) * static_cast<double>(header.height);
  const double low = std::log(geometry.ratio_min), high = std::log(geometry.ratio_max);
  for (uint64_t attempt = 0; attempt < 10; ++attempt) {
    const uint64_t draw = kPartDraws + 4 * attempt;
    const double wanted = area * draw_between(random, draw, geometry.scale_min, geometry.scale_max);
    const double ratio = std::exp(draw_between(random, draw + 1, low, high));
    const int64_t width = std::llrint(std::sqrt(wanted * ratio)),
                  height = std::llrint(std::sqrt(wanted / ratio));
    if (width < 1 || height < 1 || width > header.width || height > header.height) continue;
    return {draw_below(random, draw + 2, header.width - width + 1),
            draw_below(random, draw + 3, header.height - height + 1), width, height};
  }
  return middle_part(header, geometry);
}

ImagePart drawn_part(const ImageHeader& header, const ImageGeometry& geometry,
                     std::span<const float> draws) {
  const double area = static_cast<double>(header.width) * static_cast<double>(header.height);
  const double low = std::log(geometry.ratio_min), high = std::log(geometry.ratio_max);
  const auto between = [&](size_t draw, double least, double most) {
    return least + (most - least) * static_cast<double>(draws[draw]);
  };
  const auto below = [&](size_t draw, int64_t count) {
    const double at = static_cast<double>(draws[draw]) * static_cast<double>(count);
    if (!(at > 0)) return int64_t{0};
    return static_cast<int64_t>(std::min(at, static_cast<double>(count - 1)));
  };
  for (size_t attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * between(2 * attempt, geometry.scale_min, geometry.scale_max);
    const double ratio = std::exp(between(2 * attempt + 1, low, high));
    const int64_t width = std::llrint(std::sqrt(wanted * ratio)),
                  height = std::llrint(std::sqrt(wanted / ratio));
    if (width < 1 || height < 1 || width > header.width || height > header.height) continue;
    return {below(20, header.width - width + 1), below(21, header.height - height + 1), width,
            height};
  }
  return middle_part(header, geometry);
}

ImagePart middle_part_of_row(const ImageHeader& header, const ImageGeometry& geometry) {
  ImageGeometry row = geometry;
  row.ratio_min = row.ratio_max =
      static_cast<double>(geometry.width) / static_cast<double>(geometry.height);
  return middle_part(header, row);
}

Status load_part(std::span<const std::byte> bytes, const ImagePart& part,
                 const ImageGeometry& geometry, std::span<uint8_t> out) {
  return load_resized(bytes, part, geometry, false, out);
}

Status load_image(std::span<const std::byte> bytes, const ImageGeometry& geometry,
                  const RandomStream& random, std::span<uint8_t> out) {
  LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_image_header(bytes));
  const bool mirrored = geometry.flip > 0 && random.uniform_f64(kFlipDraw) < geometry.flip;
  switch (geometry.crop) {
    case ImageCrop::none:
      return load_resized(bytes, whole_of(header), geometry, mirrored, out);
    case ImageCrop::random_resized:
      return load_resized(bytes, draw_resized_part(header, geometry, random), geometry, mirrored,
                          out);
    default:
      return load_cropped(bytes, header, geometry, random, mirrored, out);
  }
}

}  // namespace leat
