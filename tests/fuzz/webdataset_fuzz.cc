// Reads the samples of a tar shard as a data set: an image, a class, a value of JSON and an array.
// on_bad_record: skip keeps the samples that can be read. Headers get the checksums that they
// should have, since nearly all changes would end there; the target `tar` leaves them as they are.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "ops/data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

namespace {

using namespace leat;

Bytes with_checksums(std::span<const std::byte> input) {
  constexpr size_t kBlock = 512;
  Bytes out(input.begin(), input.end());
  for (size_t at = 0; at <= out.size() && out.size() - at >= kBlock;) {
    char* header = reinterpret_cast<char*>(out.data()) + at;
    if (std::all_of(header, header + kBlock, [](char c) { return c == 0; })) break;
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<uint8_t>(header[i]);
    std::snprintf(header + 148, 8, "%06o", sum);
    size_t size = 0;
    std::from_chars(header + 124, header + 136, size, 8);
    if (size > out.size()) break;
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return out;
}

DatasetFiles shard(bool skip) {
  DatasetFiles names;
  names.format = "webdataset";
  names.files = {"input"};
  names.options = {"columns:image=",
                   "columns:image:ext=png",
                   "columns:image:size=4",
                   "columns:labels=",
                   "columns:labels:ext=cls",
                   "columns:labels:fill=0",
                   "columns:score=",
                   "columns:score:ext=json",
                   "columns:score:field=a",
                   "columns:score:fill=0",
                   "columns:x=",
                   "columns:x:ext=npy",
                   "columns:x:shape=2",
                   "columns:x:fill=0"};
  names.options.push_back(skip ? "on_bad_record=skip" : "on_bad_record=fail");
  return names;
}

// The samples that can be read; -1 if the shard is refused.
int64_t good_samples(Files& files, bool skip) {
  const auto set = Dataset::open(files, shard(skip));
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
    const Status read = (*set)->read_row(i, outs);
    good += read.ok();
    if (read.ok()) continue;
    require_message(read);
    require(read.message().find("'input': record ") == 0, "an error names the file and the record");
    require(!skip, "a sample that was kept can be read");
  }
  return good;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 65536) return 0;
  const Bytes shard = with_checksums(bytes_of_input(data, size));
  MemoryFiles files(shard);
  const int64_t all = good_samples(files, false), kept = good_samples(files, true);
  if (all > 0) require(kept == all, "skip keeps the samples that can be read");
  return 0;
}
