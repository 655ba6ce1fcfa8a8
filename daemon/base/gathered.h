// Calls that are made at the same time, whose answers come on other threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace leat {

// The thread that makes the calls waits until all of them have ended, or until a moment of its
// choice. The callbacks share the object, and the answers that they write, since they may come
// after that. Threads: any.
class Gathered {
 public:
  // Another call is made.
  void add() {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  // A call has ended. `store` writes what it brought; it is not called once wait() has returned.
  template <typename F>
  void done(F store) {
    const std::lock_guard lock(mutex_);
    if (!over_) store();
    --open_;
    changed_.notify_all();
  }
  // Waits until all calls have ended, or until then. False if a call has not ended.
  bool wait(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    const bool all = changed_.wait_until(lock, until, [this] { return open_ == 0; });
    over_ = true;
    return all;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t open_ = 0;
  bool over_ = false;
};

}  // namespace leat
