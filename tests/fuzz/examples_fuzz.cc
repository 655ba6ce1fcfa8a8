// Reads a TFRecord file as a data set: an image, a class, numbers with a fill, and elements as
// bytes. on_bad_record: skip keeps the records that can be read. Records get the checksums that
// they should have, since nearly all changes would end there; the target `tfrecord` leaves them as
// they are.
#include <cstring>

#include "devices/base/crc32c.h"
#include "tests/fuzz/row_source.h"
#include "tests/memory_files.h"

namespace {

using namespace leat;

constexpr size_t kHead = 12, kTail = 4;  // length and its checksum, and the record's checksum

void put_checksum(std::byte* out, std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  const uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
  std::memcpy(out, &masked, sizeof masked);
}

Bytes with_record_checksums(std::span<const std::byte> input) {
  Bytes out(input.begin(), input.end());
  for (size_t at = 0; out.size() - at >= kHead;) {
    const std::span<std::byte> left = std::span(out).subspan(at);
    uint64_t length = 0;
    std::memcpy(&length, left.data(), sizeof length);
    put_checksum(left.data() + 8, left.first(8));
    if (length > left.size() - kHead || left.size() - kHead - length < kTail) break;
    const auto size = static_cast<size_t>(length);
    put_checksum(left.data() + kHead + size, left.subspan(kHead, size));
    at += kHead + size + kTail;
  }
  return out;
}

DatasetFiles records() {
  DatasetFiles names;
  names.format = "tfrecord";
  names.options = {"columns:image=",
                   "columns:image:size=4",
                   "columns:labels=",
                   "columns:labels:dtype=int64",
                   "columns:labels:fill=0",
                   "columns:x=",
                   "columns:x:shape=2",
                   "columns:x:fill=0",
                   "columns:raw=",
                   "columns:raw:raw=true",
                   "columns:raw:dtype=uint8",
                   "columns:raw:shape=3",
                   "columns:name=",
                   "columns:name:bytes=8"};
  return names;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 65536) return 0;
  const Bytes bytes = with_record_checksums(bytes_of_input(data, size));
  MemoryFiles files(bytes);
  check_good_records(files, records());
  return 0;
}
