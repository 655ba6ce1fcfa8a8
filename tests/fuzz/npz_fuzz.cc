// Reads an NPZ file: its directory, its arrays, and the rows of a data set of them. Arrays that
// were read must be written, and read back as the same.
#include "ops/data/dataset.h"
#include "ops/formats/npz.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

namespace {

using namespace leat;

std::map<std::string, Tensor> arrays_of(const ReadableFile& file) {
  std::map<std::string, Tensor> out;
  const auto members = read_npz_directory(file);
  if (!members.ok()) {
    require_message(members.status());
    return out;
  }
  for (const NpzMember& member : *members) {
    const ArrayHeader& header = member.header;
    const uint64_t bytes =
        static_cast<uint64_t>(header.shape.elements()) * dtype_size(header.dtype);
    require(header.offset <= file.size() && bytes <= file.size() - header.offset,
            "an array is in the file");
    const auto values = read_npz_member(file, member);
    if (!values.ok()) require_message(values.status());
    if (values.ok())
      require(out.emplace(member.name, *values).second, "a name of an array is there once");
  }
  return out;
}

// The rows of the data set are those of the arrays.
void compare_rows(Files& files, const std::map<std::string, Tensor>& arrays) {
  DatasetFiles names;
  names.format = "npz";
  names.files = {"input"};
  const auto data = Dataset::open(files, names, /*large_array=*/64);
  if (!data.ok()) return require_message(data.status());
  for (size_t c = 0; c < (*data)->info().columns.size(); ++c) {
    const ColumnInfo& column = (*data)->info().columns[c];
    const auto array = arrays.find(column.name);
    const auto size = static_cast<size_t>(column.row_bytes());
    Bytes row(size);
    for (int64_t i = 0; i < (*data)->info().count; ++i) {
      const Status read = (*data)->read(c, i, row);
      if (!read.ok()) require_message(read);
      if (!read.ok() || array == arrays.end()) continue;
      const auto* elements = static_cast<const std::byte*>(array->second.raw());
      require(std::equal(row.begin(), row.end(), elements + static_cast<size_t>(i) * size),
              "a row has the bytes of its array");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 8192) return 0;  // arrays may lie over one another
  MemoryFiles files(bytes_of_input(data, size));
  const auto file = files.open("input");
  const auto arrays = arrays_of(**file);
  compare_rows(files, arrays);
  Bytes written;
  const Status status = format_npz(arrays, [&](std::span<const std::byte> bytes) {
    written.insert(written.end(), bytes.begin(), bytes.end());
    return Status();
  });
  if (!status.ok()) {
    require_message(status);
    return 0;
  }
  MemoryFiles copies(written);
  const auto copy = copies.open("written");
  const auto again = arrays_of(**copy);
  require(again.size() == arrays.size(), "arrays that were written are read back");
  for (const auto& [name, values] : arrays)
    require(again.at(name).identical(values), "an array reads back the same");
  return 0;
}
