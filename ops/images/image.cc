#include "ops/images/image.h"

#include <cstring>
#include <new>
#include <optional>

#include "devices/base/text.h"
#include "ops/images/codecs.h"

namespace leat {
namespace {

bool begins_with(std::span<const std::byte> bytes, size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

std::optional<ImageFormat> format_of(std::span<const std::byte> bytes) {
  if (begins_with(bytes, 0, "\xff\xd8\xff")) return ImageFormat::jpeg;
  if (begins_with(bytes, 0, "\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  if (begins_with(bytes, 0, "RIFF") && begins_with(bytes, 8, "WEBP")) return ImageFormat::webp;
  return std::nullopt;
}

Result<ImageHeader> read_header(ImageFormat format, std::span<const std::byte> bytes) {
  switch (format) {
    case ImageFormat::jpeg:
      return read_jpeg_header(bytes);
    case ImageFormat::png:
      return read_png_header(bytes);
    case ImageFormat::webp:
      return read_webp_header(bytes);
  }
  return internal_error("an image: unknown format");
}

}  // namespace

Status damaged_image(std::string_view format, std::string_view why) {
  return invalid_argument(
      cat("a ", format, " image: expected one that is whole, received one with damage: ", why));
}

Result<Image> make_image(int64_t width, int64_t height, int64_t channels, int64_t stride) {
  try {
    return Image(width, height, channels, stride);
  } catch (const std::bad_alloc&) {
    return resource_exhausted(
        cat("an image: expected memory for ", width, "x", height, " pixels, there is none"));
  }
}

Result<Image> gray_of(const ImageView& colour) {
  LEAT_ASSIGN_OR_RETURN(Image gray, make_image(colour.width, colour.height, 1, colour.width));
  for (int64_t y = 0; y < colour.height; ++y) {
    const uint8_t* in = colour.row(y);
    uint8_t* out = gray.mutable_row(y);
    for (int64_t x = 0; x < colour.width; ++x, in += 3) {
      out[x] = static_cast<uint8_t>(
          (uint32_t{in[0]} * 19595 + uint32_t{in[1]} * 38470 + uint32_t{in[2]} * 7471 + 32768) >>
          16);
    }
  }
  return gray;
}

Result<ImageHeader> read_image_header(std::span<const std::byte> bytes) {
  const std::optional<ImageFormat> format = format_of(bytes);
  if (!format) {
    return invalid_argument(cat("an image: expected JPEG, PNG or WebP, received ", bytes.size(),
                                " bytes of something else"));
  }
  LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_header(*format, bytes));
  if (header.width < 1 || header.height < 1) {
    return invalid_argument(
        cat("an image: expected at least one pixel, received ", header.width, "x", header.height));
  }
  if (header.width > kImageSide || header.height > kImageSide ||
      header.width * header.height > kImagePixels) {
    return resource_exhausted(cat("an image: expected at most ", kImagePixels, " pixels and ",
                                  kImageSide, " in a row or a column, received ", header.width, "x",
                                  header.height));
  }
  return header;
}

Result<Image> decode_image(std::span<const std::byte> bytes, int64_t channels,
                           const ImagePart& part) {
  LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_image_header(bytes));
  const bool inside = part.x >= 0 && part.y >= 0 && part.width > 0 && part.height > 0 &&
                      part.width <= header.width - part.x && part.height <= header.height - part.y;
  if (!inside || (channels != 1 && channels != 3)) {
    return invalid_argument(cat("a part of an image: expected 1 or 3 channels of a part of ",
                                header.width, "x", header.height, " pixels, received ", channels,
                                " of ", part.width, "x", part.height, " from ", part.x, ",",
                                part.y));
  }
  switch (header.format) {
    case ImageFormat::jpeg:
      return decode_jpeg(bytes, channels, part);
    case ImageFormat::png:
      return decode_png(bytes, channels, part);
    case ImageFormat::webp:
      return decode_webp(bytes, channels, part);
  }
  return internal_error("an image: unknown format");
}

Result<Image> decode_image(std::span<const std::byte> bytes, int64_t channels) {
  LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_image_header(bytes));
  return decode_image(bytes, channels, whole_of(header));
}

}  // namespace leat
