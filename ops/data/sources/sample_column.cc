#include "ops/data/sources/sample_column.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "devices/base/text.h"
#include "ops/data/sources/json_text.h"
#include "ops/formats/elements.h"
#include "ops/formats/npy.h"

namespace leat {

// Walks over a JSON text to the value of a path.
class JsonSample {
 public:
  JsonSample(std::string_view text, const SampleColumn& column, std::span<std::byte> out)
      : text_(text), column_(column), out_(out) {}

  Status read(std::string_view path) {
    LEAT_RETURN_IF_ERROR(walk(path, 1));
    LEAT_RETURN_IF_ERROR(text_.end());
    if (!found_) return column_.store_missing(out_);
    if (stored_ == column_.fields()) return {};
    return invalid_argument(cat("expected ", column_.fields(), " values, received ", stored_));
  }

 private:
  Status walk(std::string_view path, int depth) {
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text_.kind());
    if (kind != JsonKind::object) return text_.skip(depth);
    if (depth > kJsonDepth) return text_.wrong("fewer nested values");
    const size_t dot = std::min(path.find('.'), path.size());
    return text_.object([&](const std::string& name) -> Status {
      if (name != path.substr(0, dot)) return text_.skip(depth + 1);
      if (dot < path.size()) return walk(path.substr(dot + 1), depth + 1);
      if (found_) return invalid_argument(cat("expected ", name, " once, received it twice"));
      found_ = true;
      return value(depth + 1);
    });
  }

  // Arrays within arrays are read one after the other.
  Status value(int depth) {
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text_.kind());
    if (kind == JsonKind::array) {
      if (depth > kJsonDepth) return text_.wrong("fewer nested values");
      return text_.array([&] { return value(depth + 1); });
    }
    if (kind == JsonKind::object) return invalid_argument("expected a value, received an object");
    if (kind == JsonKind::null) {
      found_ = false;
      return text_.word().status();
    }
    LEAT_ASSIGN_OR_RETURN(std::byte * at, column_.place(stored_++, out_));
    if (kind == JsonKind::string) {
      LEAT_ASSIGN_OR_RETURN(const std::string text, text_.string());
      return column_.type().store_text(text, at);
    }
    LEAT_ASSIGN_OR_RETURN(const std::string_view word, text_.word());
    return column_.type().store_text(word, at);
  }

  JsonText text_;
  const SampleColumn& column_;
  const std::span<std::byte> out_;
  int64_t stored_ = 0;
  bool found_ = false;
};

Result<SampleColumn> SampleColumn::make(const std::string& name, const SourceOptions& options) {
  SampleColumn column;
  if (options.has("size")) {
    for (const std::string_view other :
         {"dtype", "categories", "fill", "bytes", "holds", "shape"}) {
      if (options.has(other))
        return invalid_argument(cat(other, ": expected no such key of an image, which has a size"));
    }
    LEAT_ASSIGN_OR_RETURN(column.image_, ImageColumn::make(options));
    column.info_ = column.image_->info(name);
    return column;
  }
  for (const SourceOption& each : kImageOptions) {
    if (options.has(each.name))
      return invalid_argument(cat(each.name, ": expected a size with it, which images have"));
  }
  LEAT_ASSIGN_OR_RETURN(column.type_, FieldType::make(options));
  LEAT_ASSIGN_OR_RETURN(const Shape shape, row_shape(options.integers("shape")));
  if (column.type_.is_bytes() && shape.rank() > 0)
    return invalid_argument("shape: expected none for bytes");
  column.fields_ = column.type_.is_bytes() ? 1 : shape.elements();
  column.info_ = {name, column.type_.dtype(),
                  column.type_.is_bytes() ? column.type_.shape() : shape};
  return column;
}

Result<std::byte*> SampleColumn::place(int64_t field, std::span<std::byte> out) const {
  if (field < fields_) return out.data() + field * type_.size();
  return invalid_argument(cat("expected ", fields_, " values, received more"));
}

Status SampleColumn::store_text(std::string_view text, std::span<std::byte> out) const {
  if (fields_ != 1) return invalid_argument(cat("expected ", fields_, " values, received a text"));
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!type_.is_bytes() && !text.empty() && blank(text.back())) text.remove_suffix(1);
  return type_.store_text(text, out.data());
}

Status SampleColumn::store_json(std::string_view text, std::string_view path,
                                std::span<std::byte> out) const {
  return JsonSample(text, *this, out).read(path);
}

Status SampleColumn::store_npy(std::span<const std::byte> file, std::span<std::byte> out) const {
  LEAT_ASSIGN_OR_RETURN(const ArrayHeader header, npy_format().parse_header(file, "an NPY file"));
  if (header.dtype != info_.dtype || header.shape != info_.shape || header.fortran_order) {
    return invalid_argument(cat("expected an NPY file of ", info_.dtype, info_.shape,
                                " in C's order, received ", header.dtype, header.shape));
  }
  LEAT_RETURN_IF_ERROR(check_size(header, file.size(), "an NPY file"));
  return store_raw(file.subspan(static_cast<size_t>(header.offset)), out);
}

Status SampleColumn::store_raw(std::span<const std::byte> elements,
                               std::span<std::byte> out) const {
  if (elements.size() != out.size())
    return invalid_argument(cat("expected ", out.size(), " bytes, which ", info_.dtype, info_.shape,
                                " has, received ", elements.size()));
  LEAT_RETURN_IF_ERROR(leat::check_booleans(info_.dtype, elements, "its elements", 0));
  std::memcpy(out.data(), elements.data(), elements.size());
  return {};
}

Status SampleColumn::store_feature(const Feature& feature, std::span<std::byte> out) const {
  const auto store = [&](const auto& values, auto store_one) -> Status {
    if (static_cast<int64_t>(values.size()) != fields_)
      return invalid_argument(cat("expected ", fields_, " values, received ", values.size()));
    std::byte* at = out.data();
    for (const auto& value : values) {
      LEAT_RETURN_IF_ERROR(store_one(value, at));
      at += type_.size();
    }
    return {};
  };
  switch (feature.kind()) {
    case Feature::Kind::bytes: {
      LEAT_ASSIGN_OR_RETURN(const auto texts, feature.bytes());
      return store(texts, [&](std::span<const std::byte> text, std::byte* at) {
        return type_.store_text({reinterpret_cast<const char*>(text.data()), text.size()}, at);
      });
    }
    case Feature::Kind::floats: {
      LEAT_ASSIGN_OR_RETURN(const auto numbers, feature.floats());
      return store(numbers,
                   [&](float value, std::byte* at) { return type_.store_number_value(value, at); });
    }
    case Feature::Kind::integers: {
      LEAT_ASSIGN_OR_RETURN(const auto numbers, feature.integers());
      return store(numbers, [&](int64_t value, std::byte* at) {
        return type_.store_integer_value(value, at);
      });
    }
    case Feature::Kind::empty:
      break;
  }
  return store_missing(out);
}

Status SampleColumn::store_missing(std::span<std::byte> out) const {
  if (is_image()) return invalid_argument("expected an image, received none");
  for (int64_t field = 0; field < fields_; ++field)
    LEAT_RETURN_IF_ERROR(type_.store_missing(out.data() + field * type_.size()));
  return {};
}

Status read_sample_part(const SampleColumn& column, const RowPart& part,
                        const std::function<Status(std::span<std::byte>)>& read) {
  const auto all = static_cast<size_t>(column.info().row_bytes());
  if (part.offset == 0 && part.out.size() == all) return read(part.out);
  Bytes row(all);
  LEAT_RETURN_IF_ERROR(read(row));
  std::memcpy(part.out.data(), row.data() + part.offset, part.out.size());
  return {};
}

}  // namespace leat
