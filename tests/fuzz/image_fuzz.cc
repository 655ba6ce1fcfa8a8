// Decodes an image of any format, and a part of it. The part has the pixels of the whole; an image
// of which only the rest is damaged may still have a part.
#include <cstring>

#include "ops/images/geometry.h"
#include "tests/fuzz/fuzz.h"

// A target that takes seconds for one input finds little.
static constexpr int64_t kMostPixels = 1 << 20;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const auto bytes = bytes_of_input(data, size);
  const auto header = read_image_header(bytes);
  if (!header.ok()) {
    require_message(header.status());
    return 0;
  }
  require(header->width * header->height <= kImagePixels, "an image has a limit");
  if (header->width * header->height > kMostPixels) return 0;
  const auto whole = decode_image(bytes, 3);
  const ImagePart part{header->width / 3, header->height / 4, header->width - header->width / 2,
                       header->height - header->height / 2};
  const auto decoded = decode_image(bytes, 3, part);
  if (!whole.ok()) require_message(whole.status());
  if (whole.ok()) {
    require(decoded.ok(), "a part of a good image is good");
    for (int64_t y = 0; y < part.height; ++y) {
      require(std::memcmp(decoded->view().row(y), whole->view().part(part).row(y),
                          static_cast<size_t>(3 * part.width)) == 0,
              "a part has the pixels of the whole");
    }
  }
  uint8_t row[3 * 8 * 8];
  const ImageGeometry geometry{
      .height = 8, .width = 8, .crop = ImageCrop::random_resized, .flip = 0.5};
  const Status loaded = load_image(bytes, geometry, RandomStream(size, 0, 0), row);
  if (!loaded.ok()) require_message(loaded);
  return 0;
}
