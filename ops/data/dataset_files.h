// The names of a data set's files and columns: the description from which a worker opens the data.
//
// A data set is a table. Each of its columns has a name, an element type and a shape of one row,
// and all columns have the same number of rows. A batch takes the same rows of several columns.
//
//   DatasetFiles images = labelled_files("idx", "images.gz", "labels.gz", "/data/mnist");
//   DatasetFiles text;                              // windows of 257 tokens
//   text.format = "tokens";
//   text.files = {"train-*.bin"};
//   text.window = text.stride = 257;
//   text.element = DType::u16;
//   text.columns = {"tokens=window[:-1]", "labels=window[1:]"};
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/files.h"
#include "devices/base/shape.h"
#include "devices/base/status.h"

namespace leat {

// The files of a data set. Paths are relative to `root` and must stay below it, even after links
// are followed. With "" as root, any path is allowed, and relative ones start at the working
// directory. A root may be the address of a store: ops/data/stores/store_files.h.
struct DatasetFiles {
  // The name of a SourceFormat: "idx" and "npy" have one array in each file, plain or gzip, of
  // which dimension 0 counts the rows; "npz" several arrays in one file; "tokens" files of
  // integers, cut into windows. ops/data/source_formats.h lists all.
  std::string format;
  // By FilesForm of the format: "COLUMN=PATH" for files that are a column each; a path; or paths
  // and patterns of names with '*' and '?' for files of one folder, which are taken in the order of
  // their names.
  std::vector<std::string> files;
  std::string root;
  // The columns to read, as parse_column_view() takes them. Empty: every column of the files.
  std::vector<std::string> columns;
  // tokens: the rows of the one column `window` are `window` tokens each, and begin `stride` tokens
  // after each other in every file. A window lies within one file; what is left over at the end of
  // a file is not used.
  int64_t window = 0, stride = 0;
  // tokens: the type of a token in a file without a header: an integer type, little-endian.
  DType element = DType::invalid;
  // All other formats: their options, as texts that SourceOptions::parse() reads.
  std::vector<std::string> options = {};
  bool operator==(const DatasetFiles&) const = default;
};

// The data set of an array of features and an array of labels, whose columns have these names.
DatasetFiles labelled_files(std::string format, const std::string& features,
                            const std::string& labels, std::string root);

// One column that is read: a column of the files, or a part of each of its rows, under a new name.
struct ColumnView {
  std::string name;
  std::string column;
  // The part of each row along its first dimension, as Python slices: negative numbers count from
  // the end, absent ones mean the beginning and the end.
  std::optional<int64_t> begin, end;
  bool operator==(const ColumnView&) const = default;
};

// Reads "NAME=COLUMN", "NAME=COLUMN[BEGIN:END]" or "COLUMN", which keeps its name. invalid_argument
// for any other text.
Result<ColumnView> parse_column_view(std::string_view text);
// Reads "COLUMN=PATH". invalid_argument without a column or a path.
Result<std::pair<std::string, std::string>> parse_named_file(std::string_view text);
// True for a name of a column: a letter or '_', then letters, digits, '_', '.', '-' and '/'.
bool is_column_name(std::string_view name);

// Checks what can be known without the files: the format, the number of files, names that are given
// twice, and the options. invalid_argument.
Status check_dataset_files(const DatasetFiles& names);

// True if files of the data set, or of a part of a mixture, are those of a store, by its root or by
// the paths themselves.
bool reads_store(const DatasetFiles& names);

// Returns `path` below `root` as a path to open; the error is that of Dataset::open if it leaves
// the root.
Result<std::string> resolve_below(const std::string& root, const std::string& path);
// Replaces patterns by the names of the files that match, in ascending order of their bytes, still
// relative to the root. A name without '*' and '?' stays as it is. failed_precondition if a pattern
// matches nothing.
Result<std::vector<std::string>> expand_patterns(Files& files, const std::string& root,
                                                 const std::vector<std::string>& patterns);

}  // namespace leat
