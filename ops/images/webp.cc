// WebP by libwebp, with one thread.
#include <webp/decode.h>

#include "devices/base/text.h"
#include "ops/images/codecs.h"

namespace leat {
namespace {

const uint8_t* webp_bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

std::string_view webp_reason(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "no memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "unknown feature";
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "premature end of data";
    default:
      return "bad bitstream";
  }
}

}  // namespace

Result<ImageHeader> read_webp_header(std::span<const std::byte> bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(webp_bytes(bytes), bytes.size(), &features);
  if (code != VP8_STATUS_OK) return damaged_image("WebP", webp_reason(code));
  if (features.has_animation)
    return unimplemented("a WebP image: expected one picture, received an animation");
  return ImageHeader{ImageFormat::webp, features.width, features.height};
}

Result<Image> decode_webp(std::span<const std::byte> bytes, int64_t channels,
                          const ImagePart& part) {
  // The colours of a pixel are mixed from those of its neighbours, so the whole image is decoded.
  LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_webp_header(bytes));
  const int64_t stride = header.width * 3;
  LEAT_ASSIGN_OR_RETURN(Image image, make_image(header.width, header.height, 3, stride));
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return internal_error("libwebp: of another version");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = image.mutable_row(0);
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = static_cast<size_t>(stride * header.height);
  const VP8StatusCode code = WebPDecode(webp_bytes(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (code != VP8_STATUS_OK) return damaged_image("WebP", webp_reason(code));
  image.crop(part);
  if (channels == 3) return image;
  return gray_of(image.view());
}

}  // namespace leat
