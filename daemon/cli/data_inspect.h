// `leat data inspect`: what a data set has, before a job reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/cli/data_source.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Prints the format, the files, the columns with their first rows, the classes and the bad records
// of each set of data. With --json one object a line: DataSet, DataFile, DataColumn, ClassCount.
struct DataInspectCommand {
  std::string source;   // as find_data() reads it
  int64_t rows = 1000;  // that are read whole
  bool json = false;
  ColorMode color = ColorMode::automatic;
};
int run_data_inspect(const DataInspectCommand& command);

// Classes are counted in so many rows at most, unless the command reads more of them.
inline constexpr int64_t kCountedRows = 100'000;

struct InspectedColumn {
  ColumnInfo info;
  bool is_text = false;
  std::vector<std::string> first_rows;    // short texts
  std::optional<double> lowest, highest;  // of the elements in the rows that were read
  // The number of rows of each class, for a column of integers that are labels, or have names.
  std::map<int64_t, int64_t> classes;
  std::vector<std::string> class_names;
};

struct InspectedData {
  std::string name, format;
  int64_t rows = 0;
  std::vector<std::string> files, prints;  // as DatasetReport has them
  std::vector<InspectedColumn> columns;
  int64_t rows_read = 0, rows_counted = 0;
  int64_t bad_rows = 0;   // among those that were read
  std::string first_bad;  // the error of the first of them
  std::vector<std::string> notes;
};

// Reads the first `rows` rows whole, and the labels of more. Memory is that of a few rows, but for
// arrays that are compressed. Rows that cannot be read are counted; other errors are those of
// Dataset::open().
Result<InspectedData> inspect_data(Files& files, const NamedData& data, int64_t rows);

}  // namespace leat
