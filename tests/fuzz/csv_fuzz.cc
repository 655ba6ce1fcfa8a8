// Reads a table of comma-separated values. An index with few places must find the records that a
// full one finds, and a record that is kept by on_bad_record: skip must be readable.
#include "ops/data/dataset.h"
#include "ops/data/sources/text_lines.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

namespace leat {
namespace {

void compare_indexes(Files& files) {
  const auto open = [&](size_t places) {
    RecordFiles::Options options;
    options.most_places = places;
    return RecordFiles::open(files, {{"", "input", "input"}, {"", "again", "again"}},
                             std::make_shared<CsvRule>(',', std::vector<std::string>()),
                             std::move(options));
  };
  const auto full = open(1 << 20), sparse = open(2);
  require(full.ok() == sparse.ok(), "both indexes see the same records");
  if (!full.ok()) return require_message(full.status());
  require((*full)->rows() == (*sparse)->rows(), "both indexes have the same rows");
  for (int64_t row = (*full)->rows() - 1; row >= 0; --row) {
    Bytes a, b;
    require((*full)->read(row, a).ok() && (*sparse)->read(row, b).ok(), "a record can be read");
    require(a == b, "a record has the same bytes by either index");
  }
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  if (size > 4096) return 0;  // the walks take quadratic time
  MemoryFiles files(bytes_of_input(data, size));
  compare_indexes(files);
  DatasetFiles names;
  names.format = "csv";
  names.files = {"input"};
  names.options = {"on_bad_record=skip", "header=false",     "names=a",          "names=b",
                   "columns:x=",         "columns:x:from=a", "columns:x:from=b", "columns:x:fill=0",
                   "columns:t=",         "columns:t:from=b", "columns:t:bytes=3"};
  const auto table = Dataset::open(files, names);
  if (!table.ok()) {
    require_message(table.status());
    return 0;
  }
  for (int64_t row = 0; row < (*table)->info().count; ++row) {
    float x[2];
    std::byte text[3];
    std::byte* const outs[] = {reinterpret_cast<std::byte*>(x), text};
    require((*table)->read_row(row, outs).ok(), "a record that was kept can be read");
  }
  return 0;
}
