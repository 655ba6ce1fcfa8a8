#include "ops/data/sources/field_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "devices/base/text.h"
#include "ops/data/sources/values.h"
#include "ops/images/image.h"

namespace leat {
namespace {

std::string_view without_spaces(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<bool> boolean_of(std::string_view text) {
  for (const std::string_view yes : {"1", "true", "True", "TRUE"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "False", "FALSE"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

// Parses the text as a T and writes it; false if it is none, is not finite, or does not fit.
template <typename T>
bool store_parsed(std::string_view text, std::byte* at) {
  T value{};
  if constexpr (std::is_same_v<T, bool>) {
    const auto read = boolean_of(text);
    if (!read) return false;
    value = *read;
  } else {
    // from_chars() reads a minus but no plus.
    if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return false;
    }
  }
  std::memcpy(at, &value, sizeof value);
  return true;
}

// Checks what is known of a file of an image before it is decoded. A WebP file has its size in
// front, and no end that a decoder could miss.
Status check_header(std::span<const std::byte> file, int64_t most) {
  if (file.size() > static_cast<size_t>(most)) {
    return invalid_argument(
        cat("expected an image in a file of at most ", most, " bytes, received ", file.size()));
  }
  LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_image_header(file));
  if (header.format != ImageFormat::webp || file.size() < 8) return {};
  uint32_t size = 0;
  for (size_t i = 4; i-- > 0;) size = size << 8 | static_cast<uint32_t>(file[4 + i]);
  if (uint64_t{size} + 8 <= file.size()) return {};
  return invalid_argument(cat("a WebP image: expected the ", uint64_t{size} + 8,
                              " bytes that it says it has, received ", file.size()));
}

}  // namespace

std::string quoted_field(std::string_view text) {
  constexpr size_t kShown = 60;
  return text.size() <= kShown ? cat("'", text, "'") : cat("'", text.substr(0, kShown), "...'");
}

Result<FieldType> FieldType::make(const SourceOptions& column) {
  FieldType type;
  const std::vector<std::string> categories = column.texts("categories");
  type.bytes_ = column.integer("bytes");
  type.holds_image_ = column.has("holds");
  if (type.holds_image_ && type.bytes_ == 0)
    return invalid_argument("holds: expected it of a column with bytes, received none");
  if (!categories.empty() && type.bytes_ > 0)
    return invalid_argument("expected categories or bytes, received both");
  if (type.bytes_ > 0) type.dtype_ = DType::u8;
  if (!categories.empty()) type.dtype_ = DType::i64;
  if (column.has("dtype")) type.dtype_ = column_type(column.text("dtype"));
  if (type.bytes_ > 0 && type.dtype_ != DType::u8)
    return invalid_argument(
        cat("dtype: expected uint8 for bytes, received ", column_type_name(type.dtype_)));
  std::byte ignored[8];
  for (const std::string& each : categories) {
    const auto index = static_cast<int64_t>(type.categories_.size());
    if (!type.categories_.emplace(each, index).second)
      return invalid_argument(cat("categories: ", quoted_field(each), " is there twice"));
    if (!store_integer(type.dtype_, index, ignored))
      return invalid_argument(cat("categories: expected so few that ",
                                  column_type_name(type.dtype_),
                                  " has a number for each, received ", categories.size()));
  }
  if (column.has("fill")) {
    type.fill_ = column.number("fill");
    if (type.bytes_ > 0) return invalid_argument("fill: expected none for bytes");
    if (!store_number(type.dtype_, *type.fill_, ignored))
      return invalid_argument(cat("fill: expected a value of type ", column_type_name(type.dtype_),
                                  ", received ", shortest(*type.fill_)));
  }
  return type;
}

std::vector<std::string> FieldType::category_names() const {
  std::vector<std::string> out(categories_.size());
  for (const auto& [name, position] : categories_) out[static_cast<size_t>(position)] = name;
  return out;
}

Status FieldType::store_text(std::string_view text, std::byte* at) const {
  if (is_bytes()) {
    if (holds_image_) LEAT_RETURN_IF_ERROR(check_header(std::as_bytes(std::span(text)), bytes_));
    const size_t used = std::min(text.size(), static_cast<size_t>(bytes_));
    std::memcpy(at, text.data(), used);
    std::memset(at + used, 0, static_cast<size_t>(bytes_) - used);
    return {};
  }
  if (is_category()) {
    const auto found = categories_.find(text);
    if (found != categories_.end() && store_integer(dtype_, found->second, at)) return {};
    return invalid_argument(cat("expected one of its ", categories_.size(),
                                " categories, received ", quoted_field(text)));
  }
  const std::string_view number = without_spaces(text);
  const bool stored =
      with_column_type(dtype_, [&](auto type) { return store_parsed<decltype(type)>(number, at); });
  if (stored) return {};
  return invalid_argument(cat("expected a value of type ", column_type_name(dtype_), ", received ",
                              quoted_field(text)));
}

Status FieldType::check_image(std::span<const std::byte> file) const {
  LEAT_RETURN_IF_ERROR(check_header(file, bytes_));
  return decode_image(file, 3).status();
}

Status FieldType::store_integer_value(int64_t value, std::byte* at) const {
  if (is_bytes() || is_category()) return store_text(std::to_string(value), at);
  if (store_integer(dtype_, value, at)) return {};
  return invalid_argument(
      cat("expected a value of type ", column_type_name(dtype_), ", received ", value));
}

Status FieldType::store_number_value(double value, std::byte* at) const {
  if (is_bytes() || is_category()) return store_text(shortest(value), at);
  if (std::isfinite(value) && store_number(dtype_, value, at)) return {};
  return invalid_argument(
      cat("expected a value of type ", column_type_name(dtype_), ", received ", shortest(value)));
}

Status FieldType::store_missing(std::byte* at) const {
  if (fill_ && store_number(dtype_, *fill_, at)) return {};
  if (is_bytes()) return store_text("", at);
  return invalid_argument("expected a value, received none; fill: NUMBER takes its place");
}

}  // namespace leat
