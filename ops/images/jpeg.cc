// JPEG by libjpeg-turbo, whose errors are jumps: they end in guarded(), below which no frame has an
// object with a destructor.
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE and size_t to be declared.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>

#include "devices/base/text.h"
#include "ops/images/codecs.h"

namespace leat {
namespace {

// A progressive image may have so many scans. Each of them costs time for all pixels, however few
// bytes it has; real ones have about ten.
constexpr int kScans = 100;
// The library takes no more memory than this: the coefficients of a progressive image of
// kImagePixels need 6 bytes for each pixel.
constexpr long kLibraryMemory = long{6} * kImagePixels + (long{64} << 20);

struct JpegErrors {
  jpeg_error_mgr manager;  // first: the library has a pointer to it, and jump_out() one to all
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jump_out(j_common_ptr library) {
  auto* errors = reinterpret_cast<JpegErrors*>(library->err);
  errors->manager.format_message(library, errors->message);
  std::longjmp(errors->jump, 1);
}

// The library warns of damage that it can fill with gray, and goes on. Such pixels are no data.
void take_warning(j_common_ptr library, int level) {
  if (level >= 0) return;  // a trace
  const int code = library->err->msg_code;
  const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
                        code == JWRN_JFIF_MAJOR || code == JWRN_TOO_MUCH_DATA;
  if (!harmless) jump_out(library);
}

void ignore_message(j_common_ptr) {}

void count_scans(j_common_ptr library) {
  if (!library->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(library)->input_scan_number <= kScans) return;
  library->err->msg_code = JERR_BAD_PROGRESSION;
  jump_out(library);
}

// A reader of one image. It owns the library's state.
struct JpegReader {
  jpeg_decompress_struct library = {};
  JpegErrors errors = {};
  jpeg_progress_mgr progress = {};
  std::span<const std::byte> bytes;
  // The pixels that are decoded: the part, and then the columns that the library decodes for it.
  ImagePart part;
  JDIMENSION first_column = 0, columns = 0;
  Image* out = nullptr;

  explicit JpegReader(std::span<const std::byte> all) : bytes(all) {
    library.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = jump_out;
    errors.manager.emit_message = take_warning;
    errors.manager.output_message = ignore_message;
    progress.progress_monitor = count_scans;
  }
  ~JpegReader() { jpeg_destroy_decompress(&library); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
};

Status guarded(JpegReader& reader, void (*body)(JpegReader&)) {
  if (setjmp(reader.errors.jump) != 0) return damaged_image("JPEG", reader.errors.message);
  body(reader);
  return {};
}

void begin(JpegReader& reader) {
  jpeg_create_decompress(&reader.library);
  reader.library.progress = &reader.progress;
  reader.library.mem->max_memory_to_use = kLibraryMemory;
  jpeg_mem_src(&reader.library, reinterpret_cast<const unsigned char*>(reader.bytes.data()),
               static_cast<unsigned long>(reader.bytes.size()));
  jpeg_read_header(&reader.library, TRUE);
}

// Starts the decoding with the columns of the part. Two columns beside it belong to it, because the
// colours of a pixel are mixed from those of its neighbours.
void start(JpegReader& reader) {
  jpeg_decompress_struct& library = reader.library;
  library.dct_method = JDCT_ISLOW;
  library.do_fancy_upsampling = TRUE;
  // It would mend a progressive image that lacks scans, by blocks beside the part.
  library.do_block_smoothing = FALSE;
  jpeg_start_decompress(&library);
  const auto all = static_cast<int64_t>(library.output_width);
  const int64_t begin = std::max<int64_t>(0, reader.part.x - 2),
                end = std::min(all, reader.part.x + reader.part.width + 2);
  reader.first_column = static_cast<JDIMENSION>(begin);
  reader.columns = static_cast<JDIMENSION>(end - begin);
  if (end - begin < all) jpeg_crop_scanline(&library, &reader.first_column, &reader.columns);
}

void read_rows(JpegReader& reader) {
  jpeg_decompress_struct& library = reader.library;
  if (reader.part.y > 0) jpeg_skip_scanlines(&library, static_cast<JDIMENSION>(reader.part.y));
  for (int64_t y = 0; y < reader.part.height;) {
    JSAMPROW rows[16];
    const int64_t count = std::min<int64_t>(16, reader.part.height - y);
    for (int64_t i = 0; i < count; ++i) rows[i] = reader.out->mutable_row(y + i);
    y += jpeg_read_scanlines(&library, rows, static_cast<JDIMENSION>(count));
  }
  // Behind the last row, what is missing is noticed as well.
  if (library.output_scanline == library.output_height) jpeg_finish_decompress(&library);
}

// Four values of ink to three of light, as Pillow does it. Files have the inks inverted, since
// Adobe's programs wrote the first ones.
Result<Image> colours_of_inks(const ImageView& inks) {
  LEAT_ASSIGN_OR_RETURN(Image out, make_image(inks.width, inks.height, 3, inks.width * 3));
  for (int64_t y = 0; y < inks.height; ++y) {
    const uint8_t* in = inks.row(y);
    uint8_t* to = out.mutable_row(y);
    for (int64_t x = 0; x < inks.width; ++x, in += 4, to += 3) {
      const int light = in[3];
      for (int c = 0; c < 3; ++c) {
        const int product = (255 - in[c]) * light + 128;
        to[c] = static_cast<uint8_t>(std::max(0, light - (((product >> 8) + product) >> 8)));
      }
    }
  }
  return out;
}

bool has_inks(const jpeg_decompress_struct& library) {
  return library.jpeg_color_space == JCS_CMYK || library.jpeg_color_space == JCS_YCCK;
}

}  // namespace

Result<ImageHeader> read_jpeg_header(std::span<const std::byte> bytes) {
  JpegReader reader(bytes);
  LEAT_RETURN_IF_ERROR(guarded(reader, begin));
  return ImageHeader{ImageFormat::jpeg, reader.library.image_width, reader.library.image_height};
}

Result<Image> decode_jpeg(std::span<const std::byte> bytes, int64_t channels,
                          const ImagePart& part) {
  JpegReader reader(bytes);
  reader.part = part;
  LEAT_RETURN_IF_ERROR(guarded(reader, begin));
  const bool inks = has_inks(reader.library);
  reader.library.out_color_space = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  LEAT_RETURN_IF_ERROR(guarded(reader, start));
  const int64_t depth = inks ? 4 : channels, columns = reader.columns;
  LEAT_ASSIGN_OR_RETURN(Image image, make_image(columns, part.height, depth, columns * depth));
  reader.out = &image;
  LEAT_RETURN_IF_ERROR(guarded(reader, read_rows));
  image.crop({part.x - reader.first_column, 0, part.width, part.height});
  if (!inks) return image;
  LEAT_ASSIGN_OR_RETURN(Image colour, colours_of_inks(image.view()));
  if (channels == 3) return colour;
  return gray_of(colour.view());
}

}  // namespace leat
