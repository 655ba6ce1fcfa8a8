#include "daemon/base/timed_files.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr auto kMostPause = std::chrono::milliseconds(20);

std::string on(std::string_view what, const std::string& path) {
  return cat(what, " '", path, "'");
}

class TimedFile final : public ForwardingFile {
 public:
  TimedFile(std::unique_ptr<WritableFile> file, std::string path, DiskWaits& waits)
      : ForwardingFile(std::move(file)), path_(std::move(path)), waits_(waits) {}

  Status append(std::span<const std::byte> bytes) override {
    const DiskWaits::Operation operation(waits_, on("to write", path_));
    return file_->append(bytes);
  }
  Status sync() override {
    const DiskWaits::Operation operation(waits_, on("to sync", path_));
    return file_->sync();
  }
  Status close() override {
    const DiskWaits::Operation operation(waits_, on("to close", path_));
    return file_->close();
  }

 private:
  const std::string path_;
  DiskWaits& waits_;
};

Result<std::unique_ptr<WritableFile>> timed(Result<std::unique_ptr<WritableFile>> file,
                                            const std::string& path, DiskWaits& waits) {
  LEAT_RETURN_IF_ERROR(file.status());
  return std::unique_ptr<WritableFile>(std::make_unique<TimedFile>(std::move(*file), path, waits));
}

}  // namespace

DiskWaits::Operation::Operation(DiskWaits& waits, std::string what) : waits_(waits) {
  const std::lock_guard lock(waits_.mutex_);
  const auto now = waits_.clock_.steady();
  if (waits_.pending_.empty()) {
    if (waits_.goes_on(now))
      waits_.before_ += waits_.ended_ - waits_.began_;
    else
      waits_.before_ = {};
    waits_.began_ = now;
  }
  at_ = waits_.pending_.insert(waits_.pending_.end(), std::move(what));
}

DiskWaits::Operation::~Operation() {
  const std::lock_guard lock(waits_.mutex_);
  waits_.newest_ = std::move(*at_);
  waits_.pending_.erase(at_);
  waits_.ended_ = waits_.clock_.steady();
}

bool DiskWaits::goes_on(Clock::Steady now) const {
  return now - ended_ <= std::min<Clock::Steady::duration>(kMostPause, ended_ - began_);
}

std::optional<DiskWait> DiskWaits::now() const {
  const std::lock_guard lock(mutex_);
  const auto now = clock_.steady();
  const bool none = pending_.empty();
  if (none && (newest_.empty() || !goes_on(now))) return std::nullopt;
  const auto lasted = before_ + ((none ? ended_ : now) - began_);
  return DiskWait{none ? newest_ : pending_.front(), std::chrono::duration<double>(lasted).count()};
}

Result<std::unique_ptr<WritableFile>> TimedFiles::create(const std::string& path) {
  const DiskWaits::Operation operation(waits_, on("to create", path));
  return timed(files_.create(path), path, waits_);
}

Result<std::unique_ptr<WritableFile>> TimedFiles::append_to(const std::string& path,
                                                            uint64_t size) {
  const DiskWaits::Operation operation(waits_, on("to open", path));
  return timed(files_.append_to(path, size), path, waits_);
}

Status TimedFiles::rename(const std::string& from, const std::string& to) {
  const DiskWaits::Operation operation(waits_, on("to rename", from));
  return files_.rename(from, to);
}

Status TimedFiles::link(const std::string& from, const std::string& to) {
  const DiskWaits::Operation operation(waits_, on("to link", to));
  return files_.link(from, to);
}

Status TimedFiles::remove(const std::string& path) {
  const DiskWaits::Operation operation(waits_, on("to remove", path));
  return files_.remove(path);
}

Status TimedFiles::exchange(const std::string& a, const std::string& b) {
  const DiskWaits::Operation operation(waits_, on("to rename", a));
  return files_.exchange(a, b);
}

Status TimedFiles::remove_all(const std::string& path) {
  const DiskWaits::Operation operation(waits_, on("to remove", path));
  return files_.remove_all(path);
}

Status TimedFiles::sync_directory(const std::string& path) {
  const DiskWaits::Operation operation(waits_, on("to sync", path));
  return files_.sync_directory(path);
}

Status TimedFiles::make_directories(const std::string& path) {
  const DiskWaits::Operation operation(waits_, on("to make", path));
  return files_.make_directories(path);
}

}  // namespace leat
