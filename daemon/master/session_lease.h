// How many clients hold a session, and since when none does. A session whose clients are gone must
// not keep workers for ever: the master ends it when its lease has run out.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>

namespace leat {

// A new session counts as left by its clients at the time when it was made, so that one that no
// client takes up ends as well. Threads: any.
class SessionLease {
 public:
  using Clock = std::chrono::steady_clock;

  // A client holds the session from this call until its release().
  void hold() {
    const std::lock_guard lock(mutex_);
    ++holders_;
  }
  // The client of this name, which it keeps when it connects again, takes the session over from the
  // one that has it. False if one that came later has taken it over from this one.
  bool take_over(const std::string& client) {
    const std::lock_guard lock(mutex_);
    if (client == client_) return true;
    if (former_.contains(client)) return false;
    if (former_.size() >= kMostFormer) former_.erase(former_.begin());
    if (!client_.empty()) former_.insert(client_);
    client_ = client;
    return true;
  }
  // True if this client was the last to take the session over.
  bool is_of(const std::string& client) const {
    const std::lock_guard lock(mutex_);
    return client == client_;
  }
  // The client lets the session go; the lease begins to run when it was the last one. REQUIRES: a
  // hold() before.
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
  // Names of clients beyond these are forgotten in the order of their texts: such a client could
  // take the session over again.
  static constexpr size_t kMostFormer = 4'096;
  mutable std::mutex mutex_;
  size_t holders_ = 0;
  std::string client_;            // the one that has it; "" before the first take_over()
  std::set<std::string> former_;  // clients from which it was taken over
  Clock::time_point left_at_ = Clock::now();
};

}  // namespace leat
