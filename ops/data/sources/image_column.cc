#include "ops/data/sources/image_column.h"

#include <algorithm>
#include <cstring>

#include "devices/base/ascii_text.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Separates the numbers of images from others that are drawn with the same seed.
constexpr uint64_t kImageTag = uint64_t{0x494d4147} << 32;  // "IMAG"

// Reads a range of two numbers, if it is given.
Status read_range(const SourceOptions& options, std::string_view name, double& least,
                  double& most) {
  if (!options.has(name)) return {};
  const std::vector<double> values = options.numbers(name);
  if (values.size() != 2)
    return invalid_argument(cat(name, ": expected [least, most], received ", values.size(),
                                values.size() == 1 ? " number" : " numbers"));
  least = values[0];
  most = values[1];
  return {};
}

}  // namespace

bool is_image_extension(std::string_view extension) {
  constexpr std::string_view kAll[] = {"jpg", "jpeg", "png", "webp"};
  return std::find(std::begin(kAll), std::end(kAll), extension) != std::end(kAll);
}

bool is_image_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  return !name.starts_with('.') && dot != std::string_view::npos &&
         is_image_extension(lower_case(name.substr(dot + 1)));
}

Result<ImageColumn> ImageColumn::make(const SourceOptions& options) {
  ImageColumn column;
  ImageGeometry& geometry = column.geometry_;
  const std::vector<int64_t> size = options.integers("size");
  if (size.empty() || size.size() > 2)
    return invalid_argument(cat("size: expected one number, or [height, width], received ",
                                size.empty() ? std::string("none") : join(size, ", ")));
  geometry.height = size.front();
  geometry.width = size.back();
  geometry.channels = options.integer("channels");
  geometry.filter = *resize_filter_from_name(options.text("resize"));
  geometry.crop = *image_crop_from_name(options.text("crop"));
  geometry.short_side = options.integer("short_side");
  geometry.padding = options.integer("padding");
  geometry.flip = options.number("flip");
  column.draw_ = static_cast<uint64_t>(options.integer("draw"));
  const bool ranges = options.has("scale") || options.has("ratio");
  if (ranges && geometry.crop != ImageCrop::random_resized)
    return invalid_argument(cat("scale, ratio: expected crop: random_resized with them, received ",
                                options.text("crop")));
  LEAT_RETURN_IF_ERROR(read_range(options, "scale", geometry.scale_min, geometry.scale_max));
  LEAT_RETURN_IF_ERROR(read_range(options, "ratio", geometry.ratio_min, geometry.ratio_max));
  LEAT_RETURN_IF_ERROR(check_image_geometry(geometry));
  return column;
}

ColumnInfo ImageColumn::info(std::string name) const {
  return {std::move(name), DType::u8, Shape{geometry_.channels, geometry_.height, geometry_.width}};
}

Status ImageColumn::read(std::span<const std::byte> encoded, const RowKey& key, int64_t offset,
                         std::span<std::byte> out) const {
  const RandomStream random(key.seed, kImageTag | draw_, key.position);
  const auto all = static_cast<size_t>(geometry_.channels * geometry_.height * geometry_.width);
  if (offset == 0 && out.size() == all)
    return load_image(encoded, geometry_, random,
                      {reinterpret_cast<uint8_t*>(out.data()), out.size()});
  std::vector<uint8_t> row(all);
  LEAT_RETURN_IF_ERROR(load_image(encoded, geometry_, random, row));
  std::memcpy(out.data(), row.data() + offset, out.size());
  return {};
}

Status ImageColumn::check(std::span<const std::byte> encoded) const {
  const auto all = static_cast<size_t>(geometry_.channels * geometry_.height * geometry_.width);
  std::vector<uint8_t> row(all);
  LEAT_RETURN_IF_ERROR(load_image(encoded, geometry_, RandomStream(0, kImageTag, 0), row));
  return decode_image(encoded, geometry_.channels).status();
}

}  // namespace leat
