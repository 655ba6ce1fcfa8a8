// Files that tell for how long their disk has kept the program waiting, so that `leat why` can name
// a slow disk.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "devices/base/clock.h"
#include "devices/base/forwarding_files.h"

namespace leat {

// An operation that keeps the program waiting for a disk.
struct DiskWait {
  std::string operation;  // "to sync '/state/jobs/cnn-7f3a/metrics.jsonl'"
  // For how long it, and those right before it, have lasted.
  double seconds = 0;
};

// The operations that wait for a disk at this moment. Threads: any.
class DiskWaits {
 public:
  explicit DiskWaits(const Clock& clock) : clock_(clock) {}

  // An operation lasts as long as this object.
  class Operation {
   public:
    // `waits` outlives it.
    Operation(DiskWaits& waits, std::string what);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    DiskWaits& waits_;
    std::list<std::string>::iterator at_;
  };

  // The oldest operation that has not ended, or the newest one if another may follow at once: a
  // disk may also be slow in each of many operations. They are one wait if each begins within 20 ms
  // of the end of the one before, and sooner than that one took; the time between them does not
  // count.
  std::optional<DiskWait> now() const;

 private:
  // An operation that begins now belongs to the same wait. REQUIRES: the mutex is held, and none is
  // pending.
  bool goes_on(Clock::Steady now) const;

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::list<std::string> pending_;  // by their beginning
  std::string newest_;              // that has ended
  // The last time in which some operation was pending; it has ended if none is.
  Clock::Steady began_{}, ended_{};
  Clock::Steady::duration before_{};  // of the times before that one in the same wait
};

// Notes the operations that write. Reads are not noted.
// Threads: as those of `files`, which outlives it.
class TimedFiles final : public ForwardingFiles {
 public:
  TimedFiles(Files& files, const Clock& clock) : ForwardingFiles(files), waits_(clock) {}

  std::optional<DiskWait> wait() const { return waits_.now(); }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status link(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status exchange(const std::string& a, const std::string& b) override;
  Status remove_all(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Status make_directories(const std::string& path) override;

 private:
  DiskWaits waits_;
};

}  // namespace leat
