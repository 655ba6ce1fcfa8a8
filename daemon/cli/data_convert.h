// `leat data convert`: the rows of any source as a file of another format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/cli/data_source.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Prints the rows and the columns of the file on stderr.
struct DataConvertCommand {
  std::string source;                // as find_data() reads it
  std::string output;                // .npz, .npy, .safetensors, .csv or .jsonl
  std::string part = "train";        // of a job file: the set of data
  std::vector<std::string> columns;  // empty: all of them
  bool force = false;                // replace a file that is there
  ColorMode color = ColorMode::automatic;
};
int run_data_convert(const DataConvertCommand& command);

// The elements of the columns that are kept in memory at the same time, in bytes.
inline constexpr uint64_t kConvertMemory = uint64_t{256} << 20;

struct ConvertedData {
  DatasetInfo info;
  std::vector<std::string> notes;
};
// Writes the rows of `data` to `output`: whole, beside it first, or not at all. Its extension tells
// the format; arrays are written column by column, for which rows are read again whenever the
// columns do not fit into `memory` together. The bits of numbers stay as they are: texts have the
// shortest number that reads back to them, and names of classes in place of their numbers.
// invalid_argument for a format that cannot have the columns, failed_precondition if `output` is
// there and not `force`; the errors of reading name the row, and then nothing is written.
Result<ConvertedData> convert_data(Files& files, const NamedData& data, const std::string& output,
                                   bool force, uint64_t memory = kConvertMemory);

}  // namespace leat
