// Finds the records of a TFRecord file, and reads each, and the input itself, as an Example.
#include "ops/formats/tfrecord.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

namespace {

using namespace leat;

void read_features(std::span<const std::byte> record) {
  const Status status =
      read_example(record, [&](std::string_view, const Feature& feature) -> Status {
        switch (feature.kind()) {
          case Feature::Kind::bytes: {
            LEAT_ASSIGN_OR_RETURN(const auto texts, feature.bytes());
            size_t all = 0;
            for (const auto& text : texts) all += text.size();
            require(all <= record.size(), "texts lie in the record");
            break;
          }
          case Feature::Kind::floats: {
            LEAT_ASSIGN_OR_RETURN(const auto numbers, feature.floats());
            require(4 * numbers.size() <= record.size(), "floats lie in the record");
            break;
          }
          case Feature::Kind::integers: {
            LEAT_ASSIGN_OR_RETURN(const auto numbers, feature.integers());
            require(numbers.size() <= record.size(), "integers lie in the record");
            break;
          }
          case Feature::Kind::empty:
            break;
        }
        return {};
      });
  if (!status.ok()) require_message(status);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = bytes_of_input(data, size);
  read_features(bytes);
  MemoryFiles files(bytes);
  const auto file = files.open("input");
  const Status status = read_tfrecords(**file, [&](TfRecordPlace place) -> Status {
    require(place.size <= size && place.offset <= size - place.size, "a record is in the file");
    Bytes record(static_cast<size_t>(place.size));
    LEAT_RETURN_IF_ERROR(read_tfrecord(**file, place, record));
    read_features(record);
    return {};
  });
  if (!status.ok()) require_message(status);
  return 0;
}
