// How many clients hold a session, and since when none does. A session whose clients are gone must
// not keep workers for ever: the master ends it when its lease has run out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace leat {

// A new session counts as left by its clients at the time when it was made, so that one that no
// client takes up ends as well. Threads: any.
class SessionLease {
 public:
  using Clock = std::chrono::steady_clock;

  // A client holds the session from this call until its release(). Returns the client's number,
  // which is higher than those before.
  uint64_t hold() {
    const std::lock_guard lock(mutex_);
    ++holders_;
    return ++clients_;
  }
  // True if no client has come after the one of this number.
  bool is_last(uint64_t client) const {
    const std::lock_guard lock(mutex_);
    return client == clients_;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    if (--holders_ == 0) left_at_ = Clock::now();
  }
  // The clients that hold the session now.
  size_t holders() const {
    const std::lock_guard lock(mutex_);
    return holders_;
  }
  // The time since no client holds the session. REQUIRES: holders() is 0.
  std::chrono::milliseconds left_for() const {
    const std::lock_guard lock(mutex_);
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - left_at_);
  }
  // True if no client has held the session for as long as `lease`.
  bool has_run_out(std::chrono::milliseconds lease) const {
    const std::lock_guard lock(mutex_);
    return holders_ == 0 && Clock::now() - left_at_ >= lease;
  }

 private:
  mutable std::mutex mutex_;
  size_t holders_ = 0;
  uint64_t clients_ = 0;
  Clock::time_point left_at_ = Clock::now();
};

}  // namespace leat
