// Lets other threads end the step that a lasting session runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace leat {

// Threads: any.
class StepStop {
 public:
  // The number of a step that no cancel() reaches.
  static constexpr uint64_t kNotCancelled = UINT64_MAX;

  // A step begins: it is not over, and cancelled only if cancel() was called for it before.
  void begin(uint64_t number) {
    const std::lock_guard lock(mutex_);
    running_ = number;
    over_ = false;
    cancelled_ = number == asked_;
  }
  // The step of this number is over. A late call, of a step before the one that runs, does nothing.
  void finish(uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (running_ != number) return;
    over_ = true;
    changed_.notify_all();
  }
  // Waits until the step is over, or is to end. True in the second case.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_ || cancelled_ || halted_; });
    return !over_;
  }
  // The step is over, or was told to end.
  void end() {
    const std::lock_guard lock(mutex_);
    running_ = 0;
  }
  // True from the begin() of the step to its end().
  bool runs(uint64_t number) const {
    const std::lock_guard lock(mutex_);
    return running_ == number;
  }

  // The step of this number is to end, if it runs or when it begins.
  void cancel(uint64_t number) {
    if (number == kNotCancelled) return;
    const std::lock_guard lock(mutex_);
    asked_ = number;
    if (running_ != number) return;
    cancelled_ = true;
    changed_.notify_all();
  }
  // Every step is to end, until go_on().
  void halt() {
    const std::lock_guard lock(mutex_);
    halted_ = true;
    changed_.notify_all();
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    halted_ = false;
  }
  bool halted() const {
    const std::lock_guard lock(mutex_);
    return halted_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t running_ = 0, asked_ = 0;  // 0: none
  bool over_ = false, cancelled_ = false, halted_ = false;
};

}  // namespace leat
