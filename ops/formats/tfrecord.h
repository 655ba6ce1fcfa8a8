// TFRecord, TensorFlow's file of records, and tf.train.Example, the message that is in most of
// them.
//
//   u64 length, u32 checksum of it      then     the record, u32 checksum of it      and so on
//
// All numbers are little-endian. A checksum is the CRC-32C, rotated right by 15 bits plus
// 0xa282ead8. An Example is a map from names to lists of byte strings, floats or 64-bit integers,
// encoded by protobuf. It is read where it stands, without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The place of one record's bytes in its file.
struct TfRecordPlace {
  uint64_t offset = 0, size = 0;
};

// Passes the place of every record to `take`, in order, until it fails. Only lengths are read and
// compared with their checksums. invalid_argument, with the path, the record's number and its
// offset, for a wrong checksum and for a record that goes beyond the file; unimplemented for a
// compressed file.
Status read_tfrecords(const ReadableFile& file, const std::function<Status(TfRecordPlace)>& take);
// Reads the record and compares it with its checksum, which follows it. invalid_argument, without
// the path, if it differs. REQUIRES: read_tfrecords() gave the place; bytes.size() is its size.
Status read_tfrecord(const ReadableFile& file, const TfRecordPlace& place,
                     std::span<std::byte> bytes);

// One feature of an Example.
class Feature {
 public:
  enum class Kind : uint8_t { empty, bytes, floats, integers };
  Feature() = default;
  Feature(Kind kind, std::span<const std::byte> list) : kind_(kind), list_(list) {}
  Kind kind() const { return kind_; }
  // The values. invalid_argument for damage. REQUIRES: the kind. The spans live as long as the
  // record.
  Result<std::vector<std::span<const std::byte>>> bytes() const;
  Result<std::vector<float>> floats() const;
  Result<std::vector<int64_t>> integers() const;

 private:
  Kind kind_ = Kind::empty;
  std::span<const std::byte> list_;  // the encoded list
};

// Passes every feature of an Example to `take`, until it fails. A name that is there twice comes
// twice, and the last one counts, as in protobuf. invalid_argument for bytes that are no Example.
Status read_example(std::span<const std::byte> record,
                    const std::function<Status(std::string_view name, const Feature&)>& take);

}  // namespace leat
