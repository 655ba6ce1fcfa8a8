#include <algorithm>

#include "devices/core/device.h"

namespace leat {

Status Timeline::status() const {
  if (!failed()) return {};
  std::lock_guard lock(mutex_);
  return status_;
}

// The value rises before this call looks for waiters, and a waiter is counted, with a full barrier,
// before it looks at the value. So either the waiter sees the new value or this call sees the
// waiter.
void Timeline::signal(uint64_t value) {
  uint64_t current = value_.load(std::memory_order_relaxed);
  while (current < value &&
         !value_.compare_exchange_weak(current, value, std::memory_order_seq_cst)) {
  }
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  // A thread that has looked at the old value sleeps by now, so that the notification reaches it.
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
  // The due waiters are called one at a time, each without the lock. No list of them is allocated.
  while (true) {
    Callback due;
    {
      std::lock_guard lock(mutex_);
      const uint64_t now = value_.load(std::memory_order_acquire);
      const auto it = std::find_if(waiters_.begin(), waiters_.end(),
                                   [now](const Waiter& w) { return w.value <= now; });
      if (it == waiters_.end()) return;
      due = std::move(it->callback);
      // The order of the waiters does not matter, so the last one fills the gap.
      if (&*it != &waiters_.back()) *it = std::move(waiters_.back());
      waiters_.pop_back();
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    due(Status());
  }
}

void Timeline::fail(Status status) {
  std::vector<Waiter> released;
  {
    std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    status_ = status;
    failed_.store(true, std::memory_order_release);
    released.swap(waiters_);
    sleepers_.fetch_sub(static_cast<int>(released.size()), std::memory_order_seq_cst);
    // Under the lock: a thread that sees the failure may destroy the timeline.
    changed_.notify_all();
  }
  // A value that was reached counts more than the failure.
  for (Waiter& waiter : released) {
    waiter.callback(reached(waiter.value) ? Status() : status);
  }
}

// The waiter is counted before the value is read: signal() says why.
void Timeline::when(uint64_t value, Callback callback) {
  Status failure;
  {
    std::lock_guard lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (!reached(value) && !failed_.load(std::memory_order_relaxed)) {
      waiters_.push_back({value, std::move(callback)});
      return;
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    if (!reached(value)) failure = status_;
  }
  callback(failure);
}

Status Timeline::wait(uint64_t value, std::chrono::steady_clock::time_point deadline) const {
  if (reached(value)) return {};
  std::unique_lock lock(mutex_);
  auto& sleepers = const_cast<std::atomic<int>&>(sleepers_);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const bool woken = changed_.wait_until(
      lock, deadline, [&] { return reached(value) || failed_.load(std::memory_order_relaxed); });
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
  if (reached(value)) return {};
  if (woken) return status_;
  return deadline_exceeded("timeline is at " + std::to_string(this->value()) + ", waited for " +
                           std::to_string(value));
}

}  // namespace leat
