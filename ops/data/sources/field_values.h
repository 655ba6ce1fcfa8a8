// The values of fields: texts, numbers or nothing, which become elements of a column. CSV, JSON
// lines and SQLite share it. Private to ops/data/sources.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/data/source.h"

namespace leat {

// The options of a column that these formats have in common.
inline constexpr SourceOption kDtypeOption{
    .name = "dtype", .kind = OptionKind::choice, .choices = kColumnTypes};
inline constexpr SourceOption kCategoriesOption{.name = "categories", .kind = OptionKind::texts};
inline constexpr SourceOption kFillOption{.name = "fill", .kind = OptionKind::number};
inline constexpr uint64_t kMostColumnBytes = uint64_t{16} << 20;  // of a text
inline constexpr SourceOption kBytesOption{
    .name = "bytes", .kind = OptionKind::integer, .min = 1, .max = kMostColumnBytes};
// The bytes are those of a file, which a transform reads later. Only formats with files of images
// in their records have the option.
inline constexpr std::string_view kHeldFiles[] = {"image"};
inline constexpr SourceOption kHoldsOption{
    .name = "holds", .kind = OptionKind::choice, .choices = kHeldFiles};

// The type of a column's elements, and the rule by which a field becomes one of them:
//   categories  the position of the field's text in a list
//   bytes       the first so many bytes of the text, and zeros behind a shorter one; with
//               `holds: image` a file of an image, all of it, whose header can be read
//   otherwise   a number; true and false for a boolean
// Immutable. Threads: any.
class FieldType {
 public:
  // Reads the options above of a column. invalid_argument, without a subject, if they do not fit
  // together.
  static Result<FieldType> make(const SourceOptions& column);

  DType dtype() const { return dtype_; }
  // True if a field is a text that becomes bytes, a row of its own.
  bool is_bytes() const { return bytes_ > 0; }
  bool is_category() const { return !categories_.empty(); }
  // The categories by their positions; empty if there are none.
  std::vector<std::string> category_names() const;
  // The shape of the element or the bytes that one field becomes: scalar, or [bytes].
  Shape shape() const { return is_bytes() ? Shape{bytes_} : Shape{}; }
  int64_t size() const { return is_bytes() ? bytes_ : static_cast<int64_t>(dtype_size(dtype_)); }

  // Each writes size() bytes at `at`, which needs no alignment. invalid_argument with "expected
  // ..., received ..." for a value that is not of the type.
  Status store_text(std::string_view text, std::byte* at) const;
  Status store_integer_value(int64_t value, std::byte* at) const;
  Status store_number_value(double value, std::byte* at) const;
  // A field without a value is an error unless there is a fill.
  Status store_missing(std::byte* at) const;
  // Decodes all of a file of an image, for on_bad_record: skip. REQUIRES: holds_image().
  Status check_image(std::span<const std::byte> file) const;
  bool holds_image() const { return holds_image_; }

 private:
  DType dtype_ = DType::f32;
  std::map<std::string, int64_t, std::less<>> categories_;
  std::optional<double> fill_;
  int64_t bytes_ = 0;
  bool holds_image_ = false;
};

// A field in quotes for a message, cut to a length that a line can have.
std::string quoted_field(std::string_view text);

}  // namespace leat
