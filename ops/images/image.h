// Images as bytes of JPEG, PNG or WebP, decoded to 8-bit gray or RGB.
//
//   LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_image_header(bytes));
//   LEAT_ASSIGN_OR_RETURN(const Image image, decode_image(bytes, 3, whole_of(header)));
//   image.view().row(0)[0];   // red of the upper left pixel
//
// The pixels follow from the bytes alone, on every machine with the same version of the libraries:
// JPEG with the accurate integer DCT and smooth upsampling of the colours, as Pillow and
// torchvision decode it. Nothing is written to stderr, and nothing in the bytes ends the process.
//
// Threads: any; every function is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// A rectangle of pixels of an image; x counts from the left and y from the top.
struct ImagePart {
  int64_t x = 0, y = 0, width = 0, height = 0;
  bool operator==(const ImagePart&) const = default;
};

enum class ImageFormat { jpeg, png, webp };

// The contents of a file's first bytes: all that is known before pixels are decoded.
struct ImageHeader {
  ImageFormat format = ImageFormat::jpeg;
  int64_t width = 0, height = 0;
};
inline ImagePart whole_of(const ImageHeader& header) { return {0, 0, header.width, header.height}; }

// An image may have so many pixels, which are three bytes each, and so many in a row or a column.
// One with more is refused by its header, before memory is taken for it.
inline constexpr int64_t kImagePixels = int64_t{1} << 26;
inline constexpr int64_t kImageSide = 65'500;

// Pixels in memory of another object: rows from top to bottom, `stride` bytes apart, each with
// `channels` bytes for every pixel from left to right.
struct ImageView {
  const uint8_t* pixels = nullptr;
  int64_t width = 0, height = 0, channels = 0, stride = 0;
  const uint8_t* row(int64_t y) const { return pixels + y * stride; }
  // REQUIRES: `part` lies in the view.
  ImageView part(const ImagePart& part) const {
    return {row(part.y) + part.x * channels, part.width, part.height, channels, stride};
  }
};

// An image that owns its pixels. Immutable once it is decoded.
class Image {
 public:
  // An image of undefined pixels. `stride` is at least width x channels.
  Image(int64_t width, int64_t height, int64_t channels, int64_t stride)
      : pixels_(std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(stride * height))),
        view_{pixels_.get(), width, height, channels, stride} {}
  const ImageView& view() const { return view_; }
  uint8_t* mutable_row(int64_t y) { return pixels_.get() + y * view_.stride; }
  // From now on the view is that part of what it was.
  void crop(const ImagePart& part) { view_ = view_.part(part); }

 private:
  std::unique_ptr<uint8_t[]> pixels_;
  ImageView view_;
};

// Finds the format by the first bytes and reads the size. invalid_argument for other bytes, damage
// and an image without pixels; resource_exhausted above kImagePixels or kImageSide; unimplemented
// for an animation.
Result<ImageHeader> read_image_header(std::span<const std::byte> bytes);

// Decodes a part of an image to `channels` values for each pixel: 1 for gray, 3 for red, green and
// blue. The result has the size of the part, and its pixels are those that the whole image has
// there. Pixels outside are not decoded where the format allows it: rows of a JPEG below the part
// never are, and damage there is not found.
//
// Transparency is left out, palettes are looked up, 16 bits are cut to their upper 8, and CMYK is
// converted as Pillow does it. The gray of a colour JPEG is its luminance; that of a colour PNG or
// WebP is (19595 R + 38470 G + 7471 B + 32768) >> 16. The orientation that a camera notes is not
// applied.
//
// The errors are those of read_image_header(), and invalid_argument for pixels that are damaged or
// missing. REQUIRES: channels is 1 or 3; the part is not empty and lies in the image.
Result<Image> decode_image(std::span<const std::byte> bytes, int64_t channels,
                           const ImagePart& part);
// Decodes all of it.
Result<Image> decode_image(std::span<const std::byte> bytes, int64_t channels);

}  // namespace leat
