// A column of samples: how the bytes of a file in an archive, or the values of a feature, become a
// row. Tar shards and TFRecord share it. Private to ops/data/sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/data/sources/field_values.h"
#include "ops/data/sources/image_column.h"
#include "ops/formats/tfrecord.h"

namespace leat {

// One column: an image if it has a size, else elements of a declared type and shape.
// Immutable. Threads: any.
class SampleColumn {
 public:
  // Reads the options of images, and dtype, categories, fill, bytes and shape. invalid_argument,
  // without a subject, if they do not fit together.
  static Result<SampleColumn> make(const std::string& name, const SourceOptions& options);

  const ColumnInfo& info() const { return info_; }
  bool is_image() const { return image_.has_value(); }
  const ImageColumn& image() const { return *image_; }
  const FieldType& type() const { return type_; }
  // The number of fields that a row has: one, or one for each element of the shape.
  int64_t fields() const { return fields_; }

  // Each writes all bytes of the row to `out`; errors are invalid_argument, without a subject.
  // A text is one field, without the blanks at its end unless it becomes bytes.
  Status store_text(std::string_view text, std::span<std::byte> out) const;
  // The value of a JSON text that a path of names finds, such as "box.corner".
  Status store_json(std::string_view text, std::string_view path, std::span<std::byte> out) const;
  // An NPY file of the declared type and shape.
  Status store_npy(std::span<const std::byte> file, std::span<std::byte> out) const;
  // The elements as they are in memory.
  Status store_raw(std::span<const std::byte> elements, std::span<std::byte> out) const;
  // The values of a feature: as many as the row has fields.
  Status store_feature(const Feature& feature, std::span<std::byte> out) const;
  // A value that the sample lacks.
  Status store_missing(std::span<std::byte> out) const;

 private:
  // Finds the place of a field; invalid_argument behind the last one.
  Result<std::byte*> place(int64_t field, std::span<std::byte> out) const;

  ColumnInfo info_;
  std::optional<ImageColumn> image_;
  FieldType type_;
  int64_t fields_ = 1;
  friend class JsonSample;
};

// The options that make() reads, beside those of images.
inline constexpr SourceOption kShapeOption{.name = "shape", .kind = OptionKind::integers, .min = 1};

// Reads whole rows for parts of them: `read` gets a column and all bytes of its row. Images are
// read by their own way.
Status read_sample_part(const SampleColumn& column, const RowPart& part,
                        const std::function<Status(std::span<std::byte>)>& read);

}  // namespace leat
