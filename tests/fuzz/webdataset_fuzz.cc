// Reads the samples of a tar shard as a data set: an image, a class, a value of JSON and an array.
// on_bad_record: skip keeps the samples that can be read. Headers get the checksums that they
// should have, since nearly all changes would end there; the target `tar` leaves them as they are.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "tests/fuzz/row_source.h"
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

DatasetFiles shard() {
  DatasetFiles names;
  names.format = "webdataset";
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
  return names;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 65536) return 0;
  const Bytes bytes = with_checksums(bytes_of_input(data, size));
  MemoryFiles files(bytes);
  check_good_records(files, shard());
  return 0;
}
