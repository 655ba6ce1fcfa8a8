// A source that is opened, and the columns of it that are read. Private to ops/data.
#pragma once

#include <memory>
#include <vector>

#include "ops/data/source.h"

namespace leat {

// A column that is read: a part of the rows of one that the source has.
struct SourceView {
  size_t column = 0;   // of the source
  int64_t offset = 0;  // of the part, in bytes of the row
};

// A source whose rows are counted, before load() and attach().
struct OpenedSource {
  DatasetFiles names;  // without patterns
  std::vector<SourceFile> places;
  std::unique_ptr<Source> source;
  DatasetInfo info;               // of the columns that are read
  std::vector<ColumnPart> parts;  // one for each of them
  std::vector<SourceView> views;  // one for each of them
  std::vector<bool> wanted;       // by column of the source
};

// Checks the names, replaces patterns and opens the source. It reads no elements: a caller decides
// by the sizes whether there is memory for them. Errors are those of Dataset::open().
Result<OpenedSource> open_source(Files& files, const DatasetFiles& names, uint64_t large_array);

}  // namespace leat
