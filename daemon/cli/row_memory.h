// Memory for one row of a data set.
#pragma once

#include <cstddef>
#include <vector>

#include "devices/base/files.h"
#include "ops/data/columns.h"

namespace leat {

// A column of which no caller wants the elements has null in `outs`. Threads: one.
struct RowMemory {
  explicit RowMemory(const DatasetInfo& info) {
    for (const ColumnInfo& column : info.columns)
      rows.emplace_back(static_cast<size_t>(column.row_bytes()));
    for (Bytes& row : rows) outs.push_back(row.data());
  }
  std::vector<Bytes> rows;       // by column
  std::vector<std::byte*> outs;  // as Dataset::read_row() takes them
};

}  // namespace leat
