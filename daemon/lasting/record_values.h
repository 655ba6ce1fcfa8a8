// The values of a session's record (session_log.h) as its database has them: in the clear with a
// checksum, or encrypted.
//
// A row of a value is named by its place: the table, the key of the row, and all else in the row
// that gives the value its meaning. An encrypted value is refused in every other place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/checkpoint/sealed_values.h"
#include "devices/base/crc32c.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// SQLite's interface has text, all others bytes.
inline std::string_view record_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> record_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline uint32_t record_crc(std::string_view text) { return crc32c(record_bytes(text)); }

// A value on its way to the database or from it. It borrows the bytes that it does not own.
class RecordValue {
 public:
  explicit RecordValue(std::string_view borrowed) : bytes_(borrowed) {}
  explicit RecordValue(Bytes own)
      : own_(std::move(own)), bytes_(reinterpret_cast<const char*>(own_.data()), own_.size()) {}
  // bytes_ points to what own_ has, which only a move leaves where it is.
  RecordValue(RecordValue&&) = default;
  RecordValue& operator=(RecordValue&&) = default;

  std::string_view bytes() const { return bytes_; }

 private:
  Bytes own_;
  std::string_view bytes_;
};

// Threads: any, since it does not change.
class RecordValues {
 public:
  // `path` is the file of the record, for errors. Without `seal` values are in the clear. `binds`:
  // the digest of the saved state binds the values of its rows, which it does not in an encrypted
  // record of an older Leat.
  RecordValues(std::string path, std::optional<SealedValues> seal, bool binds = true)
      : path_(std::move(path)), seal_(std::move(seal)), binds_(binds && seal_) {}

  const std::optional<SealedValues>& seal() const { return seal_; }
  bool binds() const { return binds_; }

  // The value as the database is to have it. It may borrow `value`.
  Result<RecordValue> store(std::string_view place, std::string_view value) const;
  // The checksum beside a value. An encrypted value needs none: a checksum of a few bytes would
  // give them away.
  int64_t checksum(std::string_view value, uint32_t before = 0) const;
  // Reads a value of the database, and may borrow `stored`. `checksum` is the one beside it.
  // damaged() if it is not the value of this place as it was written.
  Result<RecordValue> load(std::string_view place, std::string_view stored, int64_t checksum,
                           std::string_view subject, uint32_t before = 0) const;
  // failed_precondition, which names the file: the subject is not as it was written.
  Status damaged(std::string_view subject) const;

 private:
  std::string path_;
  std::optional<SealedValues> seal_;
  bool binds_;
};

}  // namespace leat
