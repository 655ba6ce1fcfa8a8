// How many clients hold a session, and since when none does. A session whose clients are gone must
// not keep workers for ever: the master ends it when its lease has run out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
    ++taken_;
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
  // Clients that have taken the session over and are not in its record, in their order: of those
  // that are remembered, so kMostClients at most. `taken` is for written().
  struct Unwritten {
    std::vector<std::string> clients;
    uint64_t taken = 0;
  };
  Unwritten unwritten() const {
    const std::lock_guard lock(mutex_);
    const auto count = std::min<uint64_t>(taken_ - written_, clients_.size());
    return {{clients_.end() - static_cast<std::ptrdiff_t>(count), clients_.end()}, taken_};
  }
  bool all_written() const {
    const std::lock_guard lock(mutex_);
    return written_ == taken_;
  }
  // The record has them, and those before them.
  void written(const Unwritten& now) {
    const std::lock_guard lock(mutex_);
    written_ = std::max(written_, now.taken);
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
  uint64_t taken_ = 0, written_ = 0;  // changes of the client, and those that the record has
  Clock::time_point left_at_ = Clock::now();
};

}  // namespace leat
