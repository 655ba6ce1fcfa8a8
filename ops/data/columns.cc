#include "ops/data/columns.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

class MemoryColumn final : public Column {
 public:
  MemoryColumn(ColumnInfo info, Tensor values)
      : Column(std::move(info), values.shape()[0]), values_(std::move(values)) {}
  const std::byte* memory() const override { return values_.data<std::byte>(); }
  Status read(int64_t row, int64_t offset, std::span<std::byte> out) const override {
    std::memcpy(out.data(), memory() + row * info().row_bytes() + offset, out.size());
    return {};
  }

 private:
  const Tensor values_;
};

class FileColumn final : public Column {
 public:
  FileColumn(ColumnInfo info, int64_t rows, std::unique_ptr<ReadableFile> file, uint64_t offset)
      : Column(std::move(info), rows), file_(std::move(file)), offset_(offset) {}
  Status read(int64_t row, int64_t offset, std::span<std::byte> out) const override {
    const uint64_t at = offset_ + static_cast<uint64_t>(row * info().row_bytes() + offset);
    LEAT_RETURN_IF_ERROR(file_->read(at, out));
    return check_booleans(info().dtype, out, cat("'", file_->path(), "'"), at);
  }
  void advise(int64_t row, ReadAdvice advice) const override {
    const auto bytes = static_cast<uint64_t>(info().row_bytes());
    file_->advise(offset_ + static_cast<uint64_t>(row) * bytes, bytes, advice);
  }

 private:
  const std::unique_ptr<ReadableFile> file_;
  const uint64_t offset_;
};

class TokenColumn final : public Column {
 public:
  TokenColumn(ColumnInfo info, int64_t rows, std::vector<TokenFile> files, int64_t stride)
      : Column(std::move(info), rows), files_(std::move(files)), stride_(stride) {
    int64_t first = 0;
    for (const TokenFile& file : files_) {
      first_rows_.push_back(first);
      first += window_count(file.tokens, this->info().shape[0], stride_);
    }
  }
  Status read(int64_t row, int64_t offset, std::span<std::byte> out) const override {
    const auto [file, begin] = find(row);
    return file->read(begin + static_cast<uint64_t>(offset), out);
  }
  void advise(int64_t row, ReadAdvice advice) const override {
    const auto [file, begin] = find(row);
    file->advise(begin, static_cast<uint64_t>(info().row_bytes()), advice);
  }

 private:
  // The file of a row, and the byte of the file at which the row begins.
  std::pair<const ReadableFile*, uint64_t> find(int64_t row) const {
    // The last file that begins at or before the row. A file without windows begins where the next
    // one does, and is never the last.
    const auto next = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
    const size_t index = static_cast<size_t>(next - first_rows_.begin()) - 1;
    const auto size = static_cast<int64_t>(dtype_size(info().dtype));
    const TokenFile& file = files_[index];
    return {file.file.get(),
            file.offset + static_cast<uint64_t>((row - first_rows_[index]) * stride_ * size)};
  }

  const std::vector<TokenFile> files_;
  std::vector<int64_t> first_rows_;  // by file
  const int64_t stride_;
};

}  // namespace

const ColumnInfo* DatasetInfo::find(std::string_view name) const {
  for (const ColumnInfo& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

std::unique_ptr<Column> column_of(std::string name, Tensor values) {
  ColumnInfo info{std::move(name), values.dtype(), Shape(values.shape().dims().subspan(1))};
  return std::make_unique<MemoryColumn>(std::move(info), std::move(values));
}

std::unique_ptr<Column> column_in_file(ColumnInfo info, int64_t rows,
                                       std::unique_ptr<ReadableFile> file, uint64_t offset) {
  return std::make_unique<FileColumn>(std::move(info), rows, std::move(file), offset);
}

int64_t window_count(int64_t tokens, int64_t window, int64_t stride) {
  return tokens < window ? 0 : (tokens - window) / stride + 1;
}

std::unique_ptr<Column> token_windows(std::vector<TokenFile> files, DType dtype, int64_t window,
                                      int64_t stride) {
  int64_t rows = 0;
  for (const TokenFile& file : files) rows += window_count(file.tokens, window, stride);
  return std::make_unique<TokenColumn>(ColumnInfo{"window", dtype, Shape{window}}, rows,
                                       std::move(files), stride);
}

Result<ColumnPart> part_of(const ColumnView& view, const ColumnInfo& column) {
  ColumnPart part{{view.name, column.dtype, column.shape}, 0};
  if (!view.begin && !view.end) return part;
  if (column.shape.rank() == 0) {
    return invalid_argument(cat("column '", view.column,
                                "': expected rows with a dimension to take a part of, its rows "
                                "are scalars"));
  }
  const int64_t size = column.shape[0];
  // As Python's slices do it: negative bounds count from the end.
  const auto at = [&](int64_t bound) { return bound < 0 ? bound + size : bound; };
  const int64_t begin = at(view.begin.value_or(0)), end = at(view.end.value_or(size));
  if (begin < 0 || end > size || begin >= end) {
    return invalid_argument(cat("column '", view.name, "': expected a part of 0 to ", size,
                                " along the first dimension of '", view.column, "', received [",
                                begin, ", ", end, ")"));
  }
  part.offset = begin * (size == 0 ? 0 : column.row_bytes() / size);
  part.info.shape.set(0, end - begin);
  return part;
}

}  // namespace leat
