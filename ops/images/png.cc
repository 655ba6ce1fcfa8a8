// PNG by libpng, whose errors are jumps: they end in guarded_png(), below which no frame has an
// object with a destructor.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "devices/base/text.h"
#include "ops/images/codecs.h"

namespace leat {
namespace {

// A chunk beside the pixels, such as a profile of colours, may take so much memory.
constexpr png_alloc_size_t kChunk = 8 << 20;

// A reader of one image. It owns the library's state.
struct PngReader {
  png_structp library = nullptr;
  png_infop info = nullptr;
  std::jmp_buf jump;
  char message[128] = "no memory";
  std::span<const std::byte> bytes;
  size_t at = 0;
  png_bytepp rows = nullptr;

  explicit PngReader(std::span<const std::byte> all) : bytes(all) {}
  ~PngReader() { png_destroy_read_struct(&library, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

[[noreturn]] void jump_out_of_png(png_structp library, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(library));
  std::snprintf(reader->message, sizeof reader->message, "%s", message);
  std::longjmp(reader->jump, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

void take_png_bytes(png_structp library, png_bytep out, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(library));
  if (count > reader->bytes.size() - reader->at) png_error(library, "premature end of data");
  std::memcpy(out, reader->bytes.data() + reader->at, count);
  reader->at += count;
}

Status guarded_png(PngReader& reader, void (*body)(PngReader&)) {
  if (setjmp(reader.jump) != 0) return damaged_image("PNG", reader.message);
  body(reader);
  return {};
}

void begin_png(PngReader& reader) {
  reader.library =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, jump_out_of_png, ignore_png_warning);
  if (!reader.library) std::longjmp(reader.jump, 1);
  reader.info = png_create_info_struct(reader.library);
  if (!reader.info) std::longjmp(reader.jump, 1);
  png_set_read_fn(reader.library, &reader, take_png_bytes);
  // image.cc has the limits of the size.
  png_set_user_limits(reader.library, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_malloc_max(reader.library, kChunk);
  png_read_info(reader.library, reader.info);
}

// From here on a row has one byte of gray or three of colour for each pixel.
void settle_png(PngReader& reader) {
  png_set_strip_16(reader.library);
  png_set_palette_to_rgb(reader.library);
  png_set_expand_gray_1_2_4_to_8(reader.library);
  png_set_strip_alpha(reader.library);
  png_set_interlace_handling(reader.library);
  png_read_update_info(reader.library, reader.info);
}

void read_png_rows(PngReader& reader) {
  png_read_image(reader.library, reader.rows);
  png_read_end(reader.library, nullptr);
}

Result<Image> colour_of(const ImageView& gray) {
  LEAT_ASSIGN_OR_RETURN(Image out, make_image(gray.width, gray.height, 3, gray.width * 3));
  for (int64_t y = 0; y < gray.height; ++y) {
    uint8_t* to = out.mutable_row(y);
    for (int64_t x = 0; x < gray.width; ++x) std::fill_n(to + 3 * x, 3, gray.row(y)[x]);
  }
  return out;
}

}  // namespace

Result<ImageHeader> read_png_header(std::span<const std::byte> bytes) {
  PngReader reader(bytes);
  LEAT_RETURN_IF_ERROR(guarded_png(reader, begin_png));
  return ImageHeader{ImageFormat::png, png_get_image_width(reader.library, reader.info),
                     png_get_image_height(reader.library, reader.info)};
}

Result<Image> decode_png(std::span<const std::byte> bytes, int64_t channels,
                         const ImagePart& part) {
  PngReader reader(bytes);
  LEAT_RETURN_IF_ERROR(guarded_png(reader, begin_png));
  LEAT_RETURN_IF_ERROR(guarded_png(reader, settle_png));
  const int64_t width = png_get_image_width(reader.library, reader.info),
                height = png_get_image_height(reader.library, reader.info),
                depth = png_get_channels(reader.library, reader.info);
  if (depth != 1 && depth != 3)
    return damaged_image("PNG", cat("expected 1 or 3 channels, received ", depth));
  LEAT_ASSIGN_OR_RETURN(Image image, make_image(width, height, depth, width * depth));
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) rows[static_cast<size_t>(y)] = image.mutable_row(y);
  reader.rows = rows.data();
  LEAT_RETURN_IF_ERROR(guarded_png(reader, read_png_rows));
  image.crop(part);
  if (depth == channels) return image;
  return channels == 1 ? gray_of(image.view()) : colour_of(image.view());
}

}  // namespace leat
