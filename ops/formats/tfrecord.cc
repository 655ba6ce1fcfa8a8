#include "ops/formats/tfrecord.h"

#include <array>
#include <cstring>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

constexpr uint64_t kBefore = 12, kAfter = 4;  // bytes around a record

uint32_t masked_checksum(std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

Status bad_example(std::string_view why) {
  return invalid_argument(cat("expected a tf.train.Example, received bytes with ", why));
}

// The fields of one message of protobuf. A field is a number with a wire type, then its value.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }

  struct Field {
    uint64_t number = 0;
    int wire = 0;
    uint64_t value = 0;                // of a varint, or of 4 or 8 bytes
    std::span<const std::byte> bytes;  // of a field with a length
  };
  Result<Field> next() {
    LEAT_ASSIGN_OR_RETURN(const uint64_t key, varint());
    Field field{key >> 3, static_cast<int>(key & 7), 0, {}};
    if (field.number == 0) return bad_example("a field of number 0");
    switch (field.wire) {
      case 0: {
        LEAT_ASSIGN_OR_RETURN(field.value, varint());
        return field;
      }
      case 1:
      case 5: {
        const size_t size = field.wire == 1 ? 8 : 4;
        if (bytes_.size() < size) return bad_example("a number that ends early");
        std::memcpy(&field.value, bytes_.data(), size);
        bytes_ = bytes_.subspan(size);
        return field;
      }
      case 2: {
        LEAT_ASSIGN_OR_RETURN(const uint64_t size, varint());
        if (size > bytes_.size()) return bad_example("a length beyond the end");
        field.bytes = bytes_.first(static_cast<size_t>(size));
        bytes_ = bytes_.subspan(static_cast<size_t>(size));
        return field;
      }
      default:
        return bad_example(cat("the wire type ", field.wire));
    }
  }

  // Seven bits of the number in each byte, the lowest first; the eighth says that more follow.
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes_.size() && i < 10; ++i) {
      const auto byte = static_cast<uint8_t>(bytes_[i]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte & 0x80) continue;
      bytes_ = bytes_.subspan(i + 1);
      return value;
    }
    return bad_example("a number without an end");
  }

 private:
  std::span<const std::byte> bytes_;
};

// The one that the last field of the oneof sets.
Result<Feature> read_feature(std::span<const std::byte> bytes) {
  Feature feature;
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    LEAT_ASSIGN_OR_RETURN(const auto field, reader.next());
    if (field.wire != 2 || field.number > 3) continue;
    feature = Feature(static_cast<Feature::Kind>(field.number), field.bytes);
  }
  return feature;
}

// One entry of the map: its name is field 1, its feature field 2.
Status read_entry(std::span<const std::byte> bytes,
                  const std::function<Status(std::string_view, const Feature&)>& take) {
  std::string_view name;
  std::span<const std::byte> value;
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    LEAT_ASSIGN_OR_RETURN(const auto field, reader.next());
    if (field.wire != 2) continue;
    if (field.number == 1)
      name = {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
    if (field.number == 2) value = field.bytes;
  }
  LEAT_ASSIGN_OR_RETURN(const Feature feature, read_feature(value));
  return take(name, feature);
}

}  // namespace

Status read_tfrecords(const ReadableFile& file, const std::function<Status(TfRecordPlace)>& take) {
  uint64_t number = 0;
  for (uint64_t at = 0; at < file.size(); ++number) {
    const auto wrong = [&](std::string_view expected, std::string_view received) {
      return invalid_argument(cat("'", file.path(), "': record ", number, " at byte ", at,
                                  ": expected ", expected, ", received ", received));
    };
    const uint64_t room = file.size() - at;
    if (room < kBefore + kAfter) return wrong("a record", cat(room, " bytes, which are too few"));
    std::array<std::byte, kBefore> header;
    LEAT_RETURN_IF_ERROR(file.read(at, header));
    const auto size = load_little<uint64_t>(header.data());
    if (load_little<uint32_t>(header.data() + 8) != masked_checksum(std::span(header).first(8))) {
      if (at == 0 && header[0] == std::byte{0x1f} && header[1] == std::byte{0x8b}) {
        return unimplemented(cat("'", file.path(),
                                 "': expected plain records, which can be read in any order, ",
                                 "received a file that is compressed by gzip"));
      }
      return wrong("a length with its checksum", "another checksum");
    }
    if (size > room - kBefore - kAfter)
      return wrong(cat("at most ", room - kBefore - kAfter, " bytes, which are left in the file"),
                   cat(size));
    LEAT_RETURN_IF_ERROR(take({at + kBefore, size}));
    at += kBefore + size + kAfter;
  }
  return {};
}

Status read_tfrecord(const ReadableFile& file, const TfRecordPlace& place,
                     std::span<std::byte> bytes) {
  LEAT_RETURN_IF_ERROR(file.read(place.offset, bytes));
  std::array<std::byte, kAfter> after;
  LEAT_RETURN_IF_ERROR(file.read(place.offset + place.size, after));
  if (load_little<uint32_t>(after.data()) == masked_checksum(bytes)) return {};
  return invalid_argument("expected a record with its checksum, received another checksum");
}

Result<std::vector<std::span<const std::byte>>> Feature::bytes() const {
  std::vector<std::span<const std::byte>> out;
  MessageReader reader(list_);
  while (!reader.at_end()) {
    LEAT_ASSIGN_OR_RETURN(const auto field, reader.next());
    if (field.number == 1 && field.wire == 2) out.push_back(field.bytes);
  }
  return out;
}

Result<std::vector<float>> Feature::floats() const {
  std::vector<float> out;
  const auto add = [&](const std::byte* at) { out.push_back(load_little<float>(at)); };
  MessageReader reader(list_);
  while (!reader.at_end()) {
    LEAT_ASSIGN_OR_RETURN(const auto field, reader.next());
    if (field.number != 1) continue;
    if (field.wire == 5) add(reinterpret_cast<const std::byte*>(&field.value));
    if (field.wire != 2) continue;
    if (field.bytes.size() % 4 != 0) return bad_example("floats that end early");
    for (size_t i = 0; i < field.bytes.size(); i += 4) add(field.bytes.data() + i);
  }
  return out;
}

Result<std::vector<int64_t>> Feature::integers() const {
  std::vector<int64_t> out;
  MessageReader reader(list_);
  while (!reader.at_end()) {
    LEAT_ASSIGN_OR_RETURN(const auto field, reader.next());
    if (field.number != 1) continue;
    if (field.wire == 0) out.push_back(static_cast<int64_t>(field.value));
    if (field.wire != 2) continue;
    MessageReader packed(field.bytes);
    while (!packed.at_end()) {
      LEAT_ASSIGN_OR_RETURN(const uint64_t value, packed.varint());
      out.push_back(static_cast<int64_t>(value));
    }
  }
  return out;
}

Status read_example(std::span<const std::byte> record,
                    const std::function<Status(std::string_view, const Feature&)>& take) {
  MessageReader example(record);
  while (!example.at_end()) {
    LEAT_ASSIGN_OR_RETURN(const auto features, example.next());
    if (features.number != 1 || features.wire != 2) continue;
    MessageReader map(features.bytes);
    while (!map.at_end()) {
      LEAT_ASSIGN_OR_RETURN(const auto entry, map.next());
      if (entry.number == 1 && entry.wire == 2) LEAT_RETURN_IF_ERROR(read_entry(entry.bytes, take));
    }
  }
  return {};
}

}  // namespace leat
