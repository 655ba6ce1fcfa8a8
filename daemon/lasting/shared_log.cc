#include "daemon/lasting/shared_log.h"

#include <filesystem>

#include "devices/base/text.h"

namespace leat {

Result<SharedLog::Use> SharedLog::open() {
  std::unique_lock lock(mutex_);
  if (log_ == nullptr) {
    const Status over = cancelled(cat("'", record_.path, "': the session is over"));
    if (retired_) return over;
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(record_.path).parent_path(), error);
    if (error) return unavailable(cat("'", record_.path, "': its folder: ", error.message()));
    LEAT_ASSIGN_OR_RETURN(auto log, SessionLog::open(record_));
    // A retire() that came meanwhile may have found no file yet.
    if (retired_) {
      log.reset();
      SessionLog::remove(record_.path);
      return over;
    }
    log_ = std::move(log);
  }
  return Use(std::move(lock), log_.get());
}

void SharedLog::close() {
  const std::lock_guard lock(mutex_);
  log_.reset();
}

// It does not wait for the mutex: a write of the record may take long.
void SharedLog::retire() {
  retired_ = true;
  SessionLog::remove(record_.path);
}

}  // namespace leat
