#include "daemon/metrics/log_writer.h"

#include <span>

namespace leat {
namespace {

constexpr size_t kMostKept = 64 << 20;

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

size_t LogWriter::add(std::string_view line) {
  const std::lock_guard lock(buffering_);
  buffer_ += line;
  return buffer_.size();
}

// REQUIRES: writing_ is held.
Status LogWriter::write() {
  LEAT_RETURN_IF_ERROR(broken_);
  {
    const std::lock_guard lock(buffering_);
    // The lock on the buffer is held only for this, so add() never waits for the disk.
    pending_ += buffer_;
    buffer_.clear();
  }
  if (pending_.empty()) return {};
  const Status appended = file_->append(as_bytes_of(pending_));
  behind_ = appended.code() == Code::resource_exhausted;
  // The lines stay for the next attempt; after an error the file has none of them.
  if (appended.ok()) pending_.clear();
  return appended;
}

Status LogWriter::flush() {
  const std::unique_lock lock(writing_, std::try_to_lock);
  if (!lock.owns_lock()) return {};  // sync() has taken these lines, or the next flush() does
  return hand_over();
}

Status LogWriter::write_through() {
  const std::lock_guard lock(writing_);
  return hand_over();
}

std::string LogWriter::unwritten() {
  const std::lock_guard writing(writing_);
  const std::lock_guard buffering(buffering_);
  return pending_ + buffer_;
}

// REQUIRES: writing_ is held.
Status LogWriter::hand_over() {
  const Status written = write();
  const bool later = written.code() == Code::resource_exhausted && pending_.size() < kMostKept;
  return later ? Status() : written;
}

Status LogWriter::sync() {
  const std::lock_guard syncing(syncing_);
  {
    const std::lock_guard writing(writing_);
    LEAT_RETURN_IF_ERROR(write());
  }
  // Without the other two locks, so lines can be added and handed over while the disk works.
  const Status synced = file_->sync();
  {
    const std::lock_guard writing(writing_);
    // This holds for a full disk, too: only a new file helps. The torn line that is written here
    // makes the next attempt write a new file.
    if (!synced.ok() && broken_.ok()) {
      broken_ = unavailable(std::string(synced.message()));
      (void)file_->append(as_bytes_of("{"));
    }
    LEAT_RETURN_IF_ERROR(broken_);
  }
  if (!named_) LEAT_RETURN_IF_ERROR(files_.sync_directory(folder_));
  named_ = true;
  return {};
}

}  // namespace leat
