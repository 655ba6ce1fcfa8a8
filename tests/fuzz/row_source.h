// Reads a file of records as a data set, for the fuzz targets of such formats.
#pragma once

#include <string>
#include <vector>

#include "ops/data/dataset.h"
#include "tests/fuzz/fuzz.h"

namespace leat {

// The records of the file "input" that can be read, the last one first, after advice about each; -1
// if the file is refused. Requires that errors name the file and the record, and that a record
// which on_bad_record: skip has kept can be read.
inline int64_t good_records(Files& files, DatasetFiles names, bool skip) {
  names.files = {"input"};
  names.options.push_back(skip ? "on_bad_record=skip" : "on_bad_record=fail");
  const auto set = Dataset::open(files, names);
  if (!set.ok()) {
    require_message(set.status());
    require(set.status().message().find("input") != std::string::npos, "an error names the file");
    return -1;
  }
  std::vector<Bytes> row;
  std::vector<std::byte*> outs;
  for (const ColumnInfo& column : (*set)->info().columns)
    row.emplace_back(static_cast<size_t>(column.row_bytes()));
  for (Bytes& each : row) outs.push_back(each.data());
  int64_t good = 0;
  for (int64_t i = (*set)->info().count - 1; i >= 0; --i) {
    (*set)->advise(i, ReadAdvice::will_need);
    const Status read = (*set)->read_row(i, outs);
    good += read.ok();
    if (read.ok()) continue;
    require_message(read);
    require(read.message().find("'input': record ") == 0, "an error names the file and the record");
    require(!skip, "a record that was kept can be read");
  }
  return good;
}

// Reads the file with and without on_bad_record: skip, which keeps the records that can be read.
inline void check_good_records(Files& files, const DatasetFiles& names) {
  const int64_t all = good_records(files, names, false), kept = good_records(files, names, true);
  if (all > 0) require(kept == all, "skip keeps the records that can be read");
}

}  // namespace leat
