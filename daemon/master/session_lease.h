// How many clients hold a session, and since when none does. A session whose clients are gone must
// not keep workers for ever: the master ends it when its lease has run out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

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
    if (has(client)) return true;
    if (std::find(clients_.begin(), clients_.end(), client) != clients_.end()) return false;
    if (clients_.size() >= kMostClients) clients_.erase(clients_.begin());
    clients_.push_back(client);
    unwritten_.push_back(client);
    return true;
  }
  // True if this client was the last to take the session over.
  bool is_of(const std::string& client) const {
    const std::lock_guard lock(mutex_);
    return has(client);
  }
  // The clients of an earlier life of the master, in their order: the last one has the session.
  void restore(std::vector<std::string> clients) {
    const std::lock_guard lock(mutex_);
    clients_ = std::move(clients);
  }
  // The clients that have taken the session over since the last written(), in their order.
  std::vector<std::string> unwritten() const {
    const std::lock_guard lock(mutex_);
    return unwritten_;
  }
  size_t count_unwritten() const {
    const std::lock_guard lock(mutex_);
    return unwritten_.size();
  }
  // The first `count` of them are in the session's record now.
  void written(size_t count) {
    const std::lock_guard lock(mutex_);
    unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<std::ptrdiff_t>(count));
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

  // The clients that are remembered: the one that has the session, and those before it.
  static constexpr size_t kMostClients = 4'096;

 private:
  bool has(const std::string& client) const {
    return !clients_.empty() && clients_.back() == client;
  }

  mutable std::mutex mutex_;
  size_t holders_ = 0;
  std::vector<std::string> clients_;
  std::vector<std::string> unwritten_;
  Clock::time_point left_at_ = Clock::now();
};

}  // namespace leat
