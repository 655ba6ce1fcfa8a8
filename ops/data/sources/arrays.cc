// Arrays as columns: files of one array each (IDX, NPY), the arrays of an NPZ file, and files of
// tokens that are cut into windows.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/data/source_formats.h"
#include "ops/formats/array_file.h"
#include "ops/formats/idx.h"
#include "ops/formats/npy.h"
#include "ops/formats/npz.h"

namespace leat {
namespace {

// One file of a data set and the header of its array. A file of tokens is an array of one
// dimension.
struct Place {
  std::string column;  // empty for tokens
  std::string name;    // relative to the root
  std::string path;
  ArrayHeader header;
  bool plain = true;  // the elements are in the file as they are in memory

  // The bytes of memory that the elements take while they are read.
  uint64_t memory() const {
    const uint64_t bytes =
        static_cast<uint64_t>(header.shape.elements()) * dtype_size(header.dtype);
    return header.fortran_order ? 2 * bytes : bytes;
  }
  // The size of header and elements: a file that is replaced in the meantime must not be larger.
  uint64_t file_bytes() const {
    return header.offset +
           static_cast<uint64_t>(header.shape.elements()) * dtype_size(header.dtype);
  }
  ColumnInfo info() const { return {column, header.dtype, Shape(header.shape.dims().subspan(1))}; }
};

// Opens a file of an array and reads its header.
Result<ArrayFile> open_array(Files& files, bool idx, const std::string& path, uint64_t limit) {
  const uint64_t most = std::min(limit, idx ? kIdxBytes : kNpyBytes);
  auto file = ArrayFile::open(files, path, idx ? idx_format() : npy_format(), most);
  if (file.ok() && file->header().shape.rank() == 0) {
    return invalid_argument(cat(path, ": expected an array of records, received a scalar"));
  }
  return file;
}

constexpr int64_t kPiece = int64_t{1} << 16;  // elements that are read at once

// Checks the labels of a piece of an array. `row_of` tells the row of an element of the array, for
// the message.
Status check_piece(const ClassCheck& check, const std::string& file, const Tensor& labels,
                   int64_t begin, const std::function<int64_t(int64_t)>& row_of) {
  for (int64_t i = 0; i < labels.elements(); ++i) {
    const int64_t label = labels.int_at(i);
    if (check.allows(label)) continue;
    return check.refuse(cat("'", file, "': label of row ", row_of(begin + i)), label);
  }
  return {};
}

// The columns are made by attach(), from the arrays in memory and the files that keep theirs.
class ColumnsSource : public Source {
 public:
  const std::byte* in_memory(size_t column, int64_t row) const override {
    const std::byte* memory = columns_[column]->memory();
    return memory ? memory + row * columns_[column]->info().row_bytes() : nullptr;
  }
  Status read(int64_t row, std::span<const RowPart> parts) const override {
    for (const RowPart& part : parts)
      LEAT_RETURN_IF_ERROR(columns_[part.column]->read(row, part.offset, part.out));
    return {};
  }
  void advise(int64_t row, std::span<const size_t> columns, ReadAdvice advice) const override {
    for (const size_t column : columns) columns_[column]->advise(row, advice);
  }
  bool takes_advice() const override { return true; }

 protected:
  std::vector<std::unique_ptr<Column>> columns_;  // null: not wanted
};

// IDX, NPY and NPZ.
class ArraySource final : public ColumnsSource {
 public:
  enum class Kind : uint8_t { idx, npy, npz };
  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup, Kind kind) {
    auto source = std::make_unique<ArraySource>();
    source->kind_ = kind;
    source->large_ = setup.large_array;
    for (const SourceFile& file : setup.places) {
      LEAT_RETURN_IF_ERROR(kind == Kind::npz ? source->locate_members(setup.files, file)
                                             : source->locate_array(setup.files, file));
    }
    LEAT_RETURN_IF_ERROR(source->count_rows());
    for (const Place& place : source->places_) source->info_.columns.push_back(place.info());
    return std::unique_ptr<Source>(std::move(source));
  }

  uint64_t memory(const std::vector<bool>& wanted) const override {
    uint64_t bytes = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (wanted[i] && !stays_in_file(places_[i])) bytes += places_[i].memory();
    }
    return bytes;
  }

  Status load(Files& files, const std::vector<bool>& wanted) override {
    columns_.resize(places_.size());
    wanted_ = wanted;
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (!wanted[i] || stays_in_file(place)) continue;
      LEAT_ASSIGN_OR_RETURN(Tensor values, read_array(files, place));
      columns_[i] = column_of(place.column, std::move(values));
    }
    return {};
  }

  Status attach(Files& files) override {
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (!wanted_[i] || columns_[i]) continue;
      LEAT_ASSIGN_OR_RETURN(auto file, files.open(place.path));
      file_bytes_ += file->size();
      columns_[i] =
          column_in_file(place.info(), place.header.shape[0], std::move(file), place.header.offset);
    }
    return {};
  }

  // The labels of a whole array, in pieces: a caller that only checks them has no memory for all.
  Status check_classes(Files& files, const ClassCheck& check, size_t column,
                       const ColumnPart&) override {
    const Place& place = places_[column];
    if (kind_ == Kind::npz) {
      LEAT_ASSIGN_OR_RETURN(const Tensor all, read_array(files, place));
      const int64_t each =
          std::max<int64_t>(1, all.elements() / std::max<int64_t>(1, all.shape()[0]));
      return check_piece(check, place.name, all, 0, [&](int64_t at) { return at / each; });
    }
    LEAT_ASSIGN_OR_RETURN(ArrayFile labels,
                          open_array(files, kind_ == Kind::idx, place.path, UINT64_MAX));
    const ArrayHeader& header = labels.header();
    const int64_t all = header.shape.elements(), rows = std::max<int64_t>(1, header.shape[0]);
    for (int64_t begin = 0; begin < all; begin += kPiece) {
      const Tensor piece(header.dtype, Shape{std::min(kPiece, all - begin)});
      LEAT_RETURN_IF_ERROR(
          labels.read({static_cast<std::byte*>(piece.raw()), static_cast<size_t>(piece.bytes())}));
      // In Fortran's order the row is the fastest index.
      LEAT_RETURN_IF_ERROR(check_piece(check, place.name, piece, begin, [&](int64_t at) {
        return header.fortran_order ? at % rows : at / (all / rows);
      }));
    }
    return labels.expect_end();
  }

 private:
  bool stays_in_file(const Place& place) const { return place.plain && place.memory() >= large_; }

  Status locate_array(Files& files, const SourceFile& file) {
    LEAT_ASSIGN_OR_RETURN(const ArrayFile array,
                          open_array(files, kind_ == Kind::idx, file.path, UINT64_MAX));
    places_.push_back({file.column, file.name, file.path, array.header(), array.is_plain()});
    return {};
  }

  // The arrays of one NPZ file, each a column.
  Status locate_members(Files& files, const SourceFile& place) {
    LEAT_ASSIGN_OR_RETURN(const auto file, files.open(place.path));
    LEAT_ASSIGN_OR_RETURN(const auto members, read_npz_directory(*file));
    for (const NpzMember& member : members) {
      if (member.header.shape.rank() == 0) continue;  // a scalar is no column
      places_.push_back(
          {member.name, place.name, place.path, member.header, !member.header.fortran_order});
    }
    if (!places_.empty()) return {};
    return invalid_argument(
        cat("'", place.path, "': expected arrays, with a row for each sample, found ", "none"));
  }

  Status count_rows() {
    info_.count = places_[0].header.shape[0];
    for (const Place& place : places_) {
      if (place.header.shape[0] == info_.count) continue;
      return invalid_argument(cat("'", place.name, "': expected ", info_.count, " rows, as '",
                                  places_[0].name, "' has, received ", place.header.shape[0]));
    }
    if (info_.count > 0) return {};
    return invalid_argument(
        cat("'", places_[0].name, "': expected at least one record, received none"));
  }

  Result<Tensor> read_array(Files& files, const Place& place) const {
    if (kind_ == Kind::npz) {
      LEAT_ASSIGN_OR_RETURN(const auto file, files.open(place.path));
      return read_npz_member(*file, {place.column, place.header});
    }
    // The headers were read before, and the files may have changed since then.
    LEAT_ASSIGN_OR_RETURN(ArrayFile file,
                          open_array(files, kind_ == Kind::idx, place.path, place.file_bytes()));
    if (file.header().shape != place.header.shape || file.header().dtype != place.header.dtype) {
      return failed_precondition(cat("'", place.name, "': expected ", place.header.dtype,
                                     place.header.shape, " as a moment ago, received ",
                                     file.header().dtype, file.header().shape));
    }
    return file.read_all();
  }

  Kind kind_ = Kind::npy;
  uint64_t large_ = kLargeArray;
  std::vector<Place> places_;  // by column
  std::vector<bool> wanted_;
};

constexpr SourceOption kTokenOptions[] = {
    {.name = "separator", .kind = OptionKind::integer, .min = 0, .max = 4294967295.0},
};
// The target of a token whose next one belongs to another document, or to another window.
constexpr int32_t kNoTarget = -100;

// The columns that tell the documents of a window apart. A separator is the last token of its
// document, and a window begins with a document of its own.
struct WindowDocuments {
  std::vector<int32_t> segments;   // the number of the token's document, from 0
  std::vector<int32_t> positions;  // the token's place in its document, from 0
  std::vector<int32_t> targets;    // the next token of the document, or kNoTarget

  void find(const Tensor& tokens, int64_t separator) {
    int32_t segment = 0, position = 0;
    const int64_t count = tokens.elements();
    for (auto* column : {&segments, &positions, &targets})
      column->reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const bool ends = tokens.int_at(i) == separator;
      segments.push_back(segment);
      positions.push_back(position);
      targets.push_back(ends || i + 1 == count ? kNoTarget
                                               : static_cast<int32_t>(tokens.int_at(i + 1)));
      segment += ends ? 1 : 0;
      position = ends ? 0 : position + 1;
    }
  }
  const std::vector<int32_t>& column(size_t index) const {
    return index == 1 ? segments : index == 2 ? positions : targets;
  }
};

int64_t largest_token(DType type) {
  const size_t bits = 8 * dtype_size(type) - (is_signed_int(type) ? 1 : 0);
  return bits > 62 ? INT64_MAX : (int64_t{1} << bits) - 1;
}

// The column is `window`, and with a separator `segments`, `positions` and `targets` beside it.
class TokenSource final : public ColumnsSource {
 public:
  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    auto source = std::make_unique<TokenSource>();
    source->window_ = setup.names.window;
    source->stride_ = setup.names.stride;
    source->element_ = setup.names.element;
    for (const SourceFile& file : setup.places)
      LEAT_RETURN_IF_ERROR(source->locate(setup.files, file));
    for (const Place& place : source->places_) {
      source->info_.first_rows.push_back(source->info_.count);
      source->info_.count += window_count(place.header.shape[0], source->window_, source->stride_);
    }
    if (source->info_.count == 0) {
      return invalid_argument(cat("'", source->places_[0].name, "': expected at least one window ",
                                  "of ", source->window_, " tokens in a file, received fewer"));
    }
    const Shape row{source->window_};
    source->info_.columns = {{"window", source->element_, row}};
    if (setup.options.has("separator")) {
      source->separator_ = setup.options.integer("separator");
      if (const int64_t most = largest_token(source->element_); *source->separator_ > most) {
        return invalid_argument(cat("separator: expected a token of type ", source->element_,
                                    ", from 0 to ", most, ", received ", *source->separator_));
      }
      for (const char* name : {"segments", "positions", "targets"})
        source->info_.columns.push_back({name, DType::i32, row});
    }
    return std::unique_ptr<Source>(std::move(source));
  }

  Status attach(Files& files) override {
    std::vector<TokenFile> parts;
    for (const Place& place : places_) {
      TokenFile part{nullptr, place.header.offset, place.header.shape[0]};
      LEAT_ASSIGN_OR_RETURN(part.file, files.open(place.path));
      file_bytes_ += part.file->size();
      parts.push_back(std::move(part));
    }
    columns_.push_back(token_windows(std::move(parts), element_, window_, stride_));
    return {};
  }

  const std::byte* in_memory(size_t column, int64_t row) const override {
    return separator_ ? nullptr : ColumnsSource::in_memory(column, row);
  }

  // The window is read once for all columns.
  Status read(int64_t row, std::span<const RowPart> parts) const override {
    if (!separator_) return ColumnsSource::read(row, parts);
    const Tensor tokens(element_, Shape{window_});
    LEAT_RETURN_IF_ERROR(columns_[0]->read(
        row, 0, {static_cast<std::byte*>(tokens.raw()), static_cast<size_t>(tokens.bytes())}));
    WindowDocuments documents;
    documents.find(tokens, *separator_);
    for (const RowPart& part : parts) {
      const void* const from =
          part.column == 0 ? tokens.raw() : documents.column(part.column).data();
      std::memcpy(part.out.data(), static_cast<const std::byte*>(from) + part.offset,
                  part.out.size());
    }
    return {};
  }

  // All columns are of the bytes of one window.
  void advise(int64_t row, std::span<const size_t> columns, ReadAdvice advice) const override {
    if (!columns.empty()) columns_[0]->advise(row, advice);
  }

  // All tokens of a file may be labels, whatever part of a window the column takes.
  Status check_classes(Files& files, const ClassCheck& check, size_t column,
                       const ColumnPart&) override {
    if (column > 0 && !check.allows(kNoTarget)) {
      return invalid_argument(
          cat("column '", check.column, "': expected ignore_index: ", kNoTarget,
              " in the loss, which is the target of a token at the end of its document"));
    }
    for (const Place& place : places_) LEAT_RETURN_IF_ERROR(check_tokens(files, check, place));
    return {};
  }

 private:
  // A file of tokens is an NPY array of one dimension, or integers without a header.
  Status locate(Files& files, const SourceFile& place) {
    if (place.name.ends_with(".npy")) {
      LEAT_ASSIGN_OR_RETURN(const ArrayFile array,
                            open_array(files, false, place.path, UINT64_MAX));
      const ArrayHeader& header = array.header();
      if (header.shape.rank() != 1 || header.dtype != element_ || !array.is_plain()) {
        return invalid_argument(cat("'", place.path, "': expected ", element_,
                                    " tokens, an array of one dimension that is not compressed, ",
                                    "received ", header.dtype, header.shape));
      }
      places_.push_back({"", place.name, place.path, header, true});
      return {};
    }
    LEAT_ASSIGN_OR_RETURN(const auto file, files.open(place.path));
    const uint64_t size = dtype_size(element_);
    if (file->size() % size != 0) {
      return invalid_argument(cat("'", place.path, "': expected a multiple of ", size,
                                  " bytes, the size of a token of type ", element_, ", received ",
                                  file->size()));
    }
    const auto tokens = static_cast<int64_t>(file->size() / size);
    places_.push_back({"", place.name, place.path, {element_, Shape{tokens}, 0, false}, true});
    return {};
  }

  Status check_tokens(Files& files, const ClassCheck& check, const Place& place) const {
    LEAT_ASSIGN_OR_RETURN(const auto file, files.open(place.path));
    const int64_t all = place.header.shape[0];
    for (int64_t begin = 0; begin < all; begin += kPiece) {
      const Tensor piece(element_, Shape{std::min(kPiece, all - begin)});
      const uint64_t at = place.header.offset + static_cast<uint64_t>(begin) * dtype_size(element_);
      LEAT_RETURN_IF_ERROR(file->read(
          at, {static_cast<std::byte*>(piece.raw()), static_cast<size_t>(piece.bytes())}));
      LEAT_RETURN_IF_ERROR(check_piece(check, place.name, piece, begin,
                                       [&](int64_t token) { return token / stride_; }));
    }
    return {};
  }

  int64_t window_ = 1, stride_ = 1;
  DType element_ = DType::u16;
  std::optional<int64_t> separator_;
  std::vector<Place> places_;
};

class ArrayFormatEntry final : public SourceFormat {
 public:
  ArrayFormatEntry(std::string_view name, ArraySource::Kind kind) : name_(name), kind_(kind) {}
  std::string_view name() const override { return name_; }
  FilesForm files_form() const override {
    return kind_ == ArraySource::Kind::npz ? FilesForm::one : FilesForm::columns;
  }
  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return ArraySource::open(setup, kind_);
  }

 private:
  const std::string_view name_;
  const ArraySource::Kind kind_;
};

// Most of its options are fields of DatasetFiles, and attributes of their own in a graph: graphs of
// tokens are older than the options of other formats.
class TokensEntry final : public SourceFormat {
 public:
  std::string_view name() const override { return "tokens"; }
  FilesForm files_form() const override { return FilesForm::patterns; }
  std::span<const SourceOption> options() const override { return kTokenOptions; }
  Status check(const DatasetFiles& names, const SourceOptions&) const override {
    if (names.window < 1 || names.stride < 1) {
      return invalid_argument(cat("window: expected a window and a stride of at least 1 token, ",
                                  "received ", names.window, " and ", names.stride));
    }
    if (is_int(names.element)) return {};
    return invalid_argument(
        cat("dtype: expected an integer type of the tokens, received '", names.element, "'"));
  }
  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return TokenSource::open(setup);
  }
};

}  // namespace

const SourceFormat& idx_source() {
  static const ArrayFormatEntry entry("idx", ArraySource::Kind::idx);
  return entry;
}
const SourceFormat& npy_source() {
  static const ArrayFormatEntry entry("npy", ArraySource::Kind::npy);
  return entry;
}
const SourceFormat& npz_source() {
  static const ArrayFormatEntry entry("npz", ArraySource::Kind::npz);
  return entry;
}
const SourceFormat& tokens_source() {
  static const TokensEntry entry;
  return entry;
}

}  // namespace leat
