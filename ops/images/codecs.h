// The decoders of each format, which image.cc chooses from. Private to ops/images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/images/image.h"

namespace leat {

// Each pair does what read_image_header() and decode_image() promise for its format. A decoder gets
// bytes of which the header was read and found to be within the limits.
Result<ImageHeader> read_jpeg_header(std::span<const std::byte> bytes);
Result<Image> decode_jpeg(std::span<const std::byte> bytes, int64_t channels,
                          const ImagePart& part);
Result<ImageHeader> read_png_header(std::span<const std::byte> bytes);
Result<Image> decode_png(std::span<const std::byte> bytes, int64_t channels, const ImagePart& part);
Result<ImageHeader> read_webp_header(std::span<const std::byte> bytes);
Result<Image> decode_webp(std::span<const std::byte> bytes, int64_t channels,
                          const ImagePart& part);

// Makes an image of `part`, or resource_exhausted if there is no memory for it.
Result<Image> make_image(int64_t width, int64_t height, int64_t channels, int64_t stride);
// The gray of an image in colour, by the formula of decode_image().
Result<Image> gray_of(const ImageView& colour);

// "a JPEG image: expected one that is whole, received: <why>". invalid_argument.
Status damaged_image(std::string_view format, std::string_view why);

}  // namespace leat
