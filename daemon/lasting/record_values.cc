#include "daemon/lasting/record_values.h"

#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat {
Result<RecordValue> RecordValues::store(std::string_view place, std::string_view value) const {
  if (!seal_) return RecordValue(value);
  LEAT_ASSIGN_OR_RETURN(Bytes sealed, seal_->seal(place, record_bytes(value)));
  return RecordValue(std::move(sealed));
}

int64_t RecordValues::checksum(std::string_view value, uint32_t before) const {
  return seal_ ? 0 : int64_t{crc32c(record_bytes(value), before)};
}

Result<RecordValue> RecordValues::load(std::string_view place, std::string_view stored,
                                       int64_t checksum, std::string_view subject,
                                       uint32_t before) const {
  if (!seal_) {
    if (this->checksum(stored, before) != checksum) return damaged(subject);
    return RecordValue(stored);
  }
  Bytes plain;
  LEAT_ASSIGN_OR_RETURN(const bool whole, seal_->open(place, record_bytes(stored), plain));
  if (!whole) return damaged(subject);
  return RecordValue(std::move(plain));
}

Status RecordValues::damaged(std::string_view subject) const {
  return failed_precondition(
      cat("'", path_, "': ", subject, " of the session is damaged on the disk",
          seal_ ? ": expected it as it was encrypted, it was changed, moved or taken away" : ""));
}

}  // namespace leat
