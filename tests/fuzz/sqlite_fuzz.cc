// Reads a table of an SQLite database, as numbers, texts, blobs and classes. SQLite opens the file
// itself, so that each input becomes one.
#include <filesystem>
#include <fstream>

#include "ops/data/dataset.h"
#include "ops/data/guess.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_directory.h"

namespace {

using namespace leat;

void require_name(const Status& status) {
  require_message(status);
  require(status.message().find("input.db") != std::string::npos ||
              status.message().find("table: ") != std::string::npos,
          "an error names the file or the table");
}

void read_table(const DatasetFiles& names) {
  const auto table = Dataset::open(real_files(), names);
  if (!table.ok()) return require_name(table.status());
  std::vector<Bytes> row;
  std::vector<std::byte*> outs;
  for (const ColumnInfo& column : (*table)->info().columns)
    row.emplace_back(static_cast<size_t>(column.row_bytes()));
  for (Bytes& each : row) outs.push_back(each.data());
  // Rows are found by their rowids, in any order.
  for (int64_t i = (*table)->info().count - 1; i >= 0; --i) {
    const Status read = (*table)->read_row(i, outs);
    if (!read.ok()) require_name(read);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16384) return 0;
  static const TemporaryDirectory folder;
  const std::string path = folder / "input.db";
  std::filesystem::remove(path);  // to cut it down and fill it again would wait for the disk
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  DatasetFiles names;
  names.format = "sqlite";
  names.root = folder.path();
  names.files = {"input.db"};
  names.options = {"table=t",
                   "columns:x=",
                   "columns:x:from=a",
                   "columns:x:from=b",
                   "columns:x:fill=0",
                   "columns:c=",
                   "columns:c:bytes=5",
                   "columns:d=",
                   "columns:d:shape=2",
                   "columns:d:dtype=uint16",
                   "columns:k=",
                   "columns:k:from=c",
                   "columns:k:categories=text 1",
                   "columns:k:categories=text 2"};
  read_table(names);
  names.options = {"table=t"};
  read_table(names);
  const auto guess = guess_dataset(real_files(), path, 20);
  if (!guess.ok()) require_message(guess.status());
  return 0;
}
