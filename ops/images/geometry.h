// The way from an encoded image to the row of a batch: decode, resize, crop, mirror.
//
// A row is uint8[channels, height, width], as convolutions want it. The names and the results of
// the steps are those of torchvision's transforms for images of Pillow. Random parts follow from
// the stream that the caller passes, and from the size of the image: not from a thread, a worker or
// another row.
//
//   ImageGeometry geometry{.height = 224, .width = 224, .crop = ImageCrop::random_resized};
//   geometry.flip = 0.5;
//   LEAT_RETURN_IF_ERROR(load_image(bytes, geometry, RandomStream(seed, kTag, position), row));
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "devices/base/philox.h"
#include "devices/base/status.h"
#include "ops/images/image.h"
#include "ops/images/resize.h"

namespace leat {

enum class ImageCrop {
  none,            // the whole image is resized to the size, whatever its own proportions
  center,          // the part in the middle
  random,          // a part anywhere, each place being as likely as any other
  random_resized,  // a part of random area and proportions, resized
};
std::optional<ImageCrop> image_crop_from_name(std::string_view name);

// The steps that one column of images takes. A value.
struct ImageGeometry {
  int64_t height = 0, width = 0, channels = 3;
  ResizeFilter filter = ResizeFilter::bilinear;
  ImageCrop crop = ImageCrop::none;
  // center, random: first the image is resized, so that its shorter side has so many pixels. 0: it
  // is not resized.
  int64_t short_side = 0;
  // center, random: then so many black pixels are added on each side.
  int64_t padding = 0;
  // random_resized: the range of the part's area, as a factor of the image's, and that of its width
  // divided by its height.
  double scale_min = 0.08, scale_max = 1.0, ratio_min = 3.0 / 4.0, ratio_max = 4.0 / 3.0;
  double flip = 0.0;  // the probability that the row is mirrored, left to right
};

// Checks the numbers: invalid_argument names the first that is out of its range.
Status check_image_geometry(const ImageGeometry& geometry);

// The part of a random_resized crop: up to ten draws of area and proportions, until one fits into
// the image; else the largest part in the middle whose proportions are in the range.
ImagePart draw_resized_part(const ImageHeader& header, const ImageGeometry& geometry,
                            const RandomStream& random);

// The same part from uniform numbers of [0,1) that the caller draws: two for each of the ten draws,
// then two for its place. REQUIRES: draws.size() is kPartDrawCount.
inline constexpr int64_t kPartDrawCount = 22;
ImagePart drawn_part(const ImageHeader& header, const ImageGeometry& geometry,
                     std::span<const float> draws);
// The largest part in the middle whose proportions, width divided by height, are those of the row.
ImagePart middle_part_of_row(const ImageHeader& header, const ImageGeometry& geometry);

// Decodes a part of an image and resizes it to a row. Errors and memory as those of load_image().
// REQUIRES: the part lies in the image, and as load_image().
Status load_part(std::span<const std::byte> bytes, const ImagePart& part,
                 const ImageGeometry& geometry, std::span<uint8_t> out);

// Decodes an image to a row. The errors are those of decode_image(); invalid_argument for an image
// that is smaller than the part that is cropped. It keeps memory for pixels on each thread that
// calls it. Threads: any. REQUIRES: check_image_geometry() is ok; out.size() is channels x height x
// width.
Status load_image(std::span<const std::byte> bytes, const ImageGeometry& geometry,
                  const RandomStream& random, std::span<uint8_t> out);

}  // namespace leat
