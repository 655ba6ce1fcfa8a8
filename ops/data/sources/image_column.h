// Columns of images: their options, their type, and their rows. Image folders, tar shards and
// TFRecord share them. Private to ops/data/sources.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ops/data/source.h"
#include "ops/images/geometry.h"

namespace leat {

inline constexpr std::string_view kImageFilters[] = {"nearest", "area", "bilinear", "bicubic",
                                                     "lanczos"};
inline constexpr std::string_view kImageCrops[] = {"none", "center", "random", "random_resized"};

// The steps of ImageGeometry. A column that has `size` is one of images.
inline constexpr std::array<SourceOption, 10> kImageOptions = {{
    {.name = "size", .kind = OptionKind::integers, .min = 1, .max = 65500},
    {.name = "channels", .kind = OptionKind::integer, .initial = "3", .min = 1, .max = 3},
    {.name = "resize", .kind = OptionKind::choice, .initial = "bilinear", .choices = kImageFilters},
    {.name = "crop", .kind = OptionKind::choice, .initial = "none", .choices = kImageCrops},
    {.name = "short_side", .kind = OptionKind::integer, .initial = "0", .min = 0, .max = 65500},
    {.name = "padding", .kind = OptionKind::integer, .initial = "0", .min = 0, .max = 65500},
    {.name = "scale", .kind = OptionKind::numbers, .min = 0, .max = 1},
    {.name = "ratio", .kind = OptionKind::numbers, .min = 0, .max = 10000},
    {.name = "flip", .kind = OptionKind::number, .initial = "0", .min = 0, .max = 1},
    {.name = "draw", .kind = OptionKind::integer, .initial = "0", .min = 0},
}};

// A table of options with those of images behind them.
template <size_t N>
constexpr std::array<SourceOption, N + kImageOptions.size()> with_image_options(
    const SourceOption (&own)[N]) {
  std::array<SourceOption, N + kImageOptions.size()> out{};
  for (size_t i = 0; i < N; ++i) out[i] = own[i];
  for (size_t i = 0; i < kImageOptions.size(); ++i) out[N + i] = kImageOptions[i];
  return out;
}

// An encoded image may have so many bytes.
inline constexpr uint64_t kEncodedImage = uint64_t{256} << 20;

// True for jpg, jpeg, png and webp.
bool is_image_extension(std::string_view extension);
// True for the name of a file with such an extension, in letters of any size, that does not begin
// with a dot.
bool is_image_name(std::string_view name);

// One column of images. Immutable. Threads: any.
class ImageColumn {
 public:
  // Reads the options. invalid_argument, without a subject, without a size, for numbers that do not
  // fit together, and for options that the crop does not have.
  static Result<ImageColumn> make(const SourceOptions& options);
  // uint8[channels, height, width].
  ColumnInfo info(std::string name) const;
  // Writes bytes of the row, from byte `offset` on. The errors are those of load_image(), without
  // the file and the record.
  Status read(std::span<const std::byte> encoded, const RowKey& key, int64_t offset,
              std::span<std::byte> out) const;
  // Decodes all of the image, for on_bad_record: skip.
  Status check(std::span<const std::byte> encoded) const;

 private:
  ImageGeometry geometry_;
  uint64_t draw_ = 0;
};

}  // namespace leat
