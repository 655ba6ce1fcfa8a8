// The columns of an open data set: where their rows are, and how a row is read. Private to
// ops/data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "devices/core/tensor.h"
#include "ops/data/dataset_files.h"

namespace leat {

// The name of a column and the type of one of its rows. An empty shape is a scalar.
struct ColumnInfo {
  std::string name;
  DType dtype = DType::invalid;
  Shape shape;
  int64_t row_bytes() const { return shape.elements() * static_cast<int64_t>(dtype_size(dtype)); }
  bool operator==(const ColumnInfo&) const = default;
};

// The description of a data set: `count` rows of these columns, in the order of
// DatasetFiles::columns or, if that is empty, of the files.
struct DatasetInfo {
  int64_t count = 0;
  std::vector<ColumnInfo> columns;
  // The first row of each file, ascending from 0, where the rows lie in files one after the other;
  // a file without rows begins where the next one does. Empty where they do not.
  std::vector<int64_t> first_rows = {};
  // Null if there is no column of the name.
  const ColumnInfo* find(std::string_view name) const;
};

// The rows of one column. Immutable. Threads: any.
class Column {
 public:
  Column(ColumnInfo info, int64_t rows) : info_(std::move(info)), rows_(rows) {}
  virtual ~Column() = default;
  const ColumnInfo& info() const { return info_; }
  int64_t rows() const { return rows_; }
  // The elements of all rows, row-major, if they are in memory; else null.
  virtual const std::byte* memory() const { return nullptr; }
  // Fills `out` with bytes of a row, from byte `offset` of the row on. It may read a file, and then
  // blocks for as long as the file system takes; errors are those of ReadableFile::read(), and
  // invalid_argument for a boolean other than 0 and 1.
  // REQUIRES: 0 <= row < rows(), and the bytes lie in the row.
  virtual Status read(int64_t row, int64_t offset, std::span<std::byte> out) const = 0;
  // Passes the advice on to the file with the row. REQUIRES: 0 <= row < rows().
  virtual void advise(int64_t /*row*/, ReadAdvice /*advice*/) const {}

 private:
  const ColumnInfo info_;
  const int64_t rows_;
};

// A column of which all rows are in memory. Dimension 0 of `values` counts the rows.
std::unique_ptr<Column> column_of(std::string name, Tensor values);

// A column whose rows are in a file, one after the other and in the machine's byte order, from byte
// `offset` on.
std::unique_ptr<Column> column_in_file(ColumnInfo info, int64_t rows,
                                       std::unique_ptr<ReadableFile> file, uint64_t offset);

// One file of tokens: they begin at byte `offset` of the file.
struct TokenFile {
  std::unique_ptr<ReadableFile> file;
  uint64_t offset = 0;
  int64_t tokens = 0;
};
// The windows of `window` tokens that begin at each `stride` tokens of every file: those of the
// first file come first.
std::unique_ptr<Column> token_windows(std::vector<TokenFile> files, DType dtype, int64_t window,
                                      int64_t stride);
// The number of windows in a file.
int64_t window_count(int64_t tokens, int64_t window, int64_t stride);

// A view of a column: the part of each row that a batch takes.
struct ColumnPart {
  ColumnInfo info;     // of the part, with the name of the view
  int64_t offset = 0;  // of the part, in bytes of the row
};
// Finds the part of a view. invalid_argument if the rows are scalars and the view is a part of
// them, or if the part is empty or not in the row.
Result<ColumnPart> part_of(const ColumnView& view, const ColumnInfo& column);

}  // namespace leat
