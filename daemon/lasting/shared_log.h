// The record of a session (session_log.h) for two threads: that of its steps, and that which notes
// its clients, also while the session has no workers. They use it in turn, for one call each.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "daemon/lasting/session_log.h"
#include "devices/base/status.h"

namespace leat {

// Threads: any.
class SharedLog {
 public:
  // The log, which no other thread uses while this object lives.
  class Use {
   public:
    Use(std::unique_lock<std::mutex> lock, SessionLog* log) : lock_(std::move(lock)), log_(log) {}
    SessionLog* operator->() const { return log_; }

   private:
    std::unique_lock<std::mutex> lock_;
    SessionLog* log_;
  };

  explicit SharedLog(SessionRecord record) : record_(std::move(record)) {}

  // Opens the record, or makes it with its folder, unless it is open. Errors: those of
  // SessionLog::open(); cancelled after retire().
  Result<Use> open();
  // REQUIRES: open(), and no close() since then.
  Use operator->() { return {std::unique_lock(mutex_), log_.get()}; }
  void close();
  // Deletes the files of the record: the session is over. No open() makes them again; a thread that
  // has the record open goes on without its name.
  void retire();

 private:
  const SessionRecord record_;
  std::mutex mutex_;
  std::unique_ptr<SessionLog> log_;
  std::atomic<bool> retired_{false};
};

}  // namespace leat
