// Helpers for tests of sources of data: a folder with files, and rows as vectors.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/data/dataset.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {

// A temporary folder with the files of a data set.
class SourceFolder {
 public:
  void write(const std::string& name, std::string_view text) const {
    must(write_file_atomically(real_files(), directory / name,
                               std::as_bytes(std::span(text.data(), text.size()))));
  }
  DatasetFiles names(std::string format, std::vector<std::string> files,
                     std::vector<std::string> options = {}) const {
    DatasetFiles out;
    out.format = std::move(format);
    out.files = std::move(files);
    out.root = directory.path();
    out.options = std::move(options);
    return out;
  }
  TemporaryDirectory directory;
};

// The message with which a data set is refused when it is opened; "" if it is not.
inline std::string refusal(const DatasetFiles& names) {
  return Dataset::open(real_files(), names).status().message();
}

// A row of a column. REQUIRES: T has the size of an element.
template <typename T>
std::vector<T> row_values(const Dataset& data, size_t column, int64_t row) {
  REQUIRE(dtype_size(data.info().columns[column].dtype) == sizeof(T));
  std::vector<T> out(static_cast<size_t>(data.info().columns[column].shape.elements()));
  must(data.read(column, row, std::as_writable_bytes(std::span(out))));
  return out;
}

// The message of an attempt to read a row.
inline std::string row_error(const Dataset& data, size_t column, int64_t row) {
  std::vector<std::byte> out(static_cast<size_t>(data.info().columns[column].row_bytes()));
  return data.read(column, row, out).message();
}

// Checks that every row of every column has the same bytes in a shuffled order, in parts and with
// all columns at once, as it has in order.
inline void check_any_order(const Dataset& data) {
  const size_t columns = data.info().columns.size();
  const int64_t rows = data.info().count;
  std::vector<std::vector<std::vector<std::byte>>> truth(columns);
  for (size_t c = 0; c < columns; ++c) {
    const auto bytes = static_cast<size_t>(data.info().columns[c].row_bytes());
    for (int64_t row = 0; row < rows; ++row) {
      truth[c].emplace_back(bytes);
      must(data.read(c, row, truth[c].back()));
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = (i * 7919 + 3) % rows;
    std::vector<std::vector<std::byte>> read(columns);
    std::vector<std::byte*> outs;
    for (size_t c = 0; c < columns; ++c) {
      read[c].resize(static_cast<size_t>(data.info().columns[c].row_bytes()));
      outs.push_back(read[c].data());
    }
    must(data.read_row(row, outs));
    for (size_t c = 0; c < columns; ++c) CHECK(read[c] == truth[c][static_cast<size_t>(row)]);
  }
}

}  // namespace leat
