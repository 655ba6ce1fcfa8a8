#include <algorithm>

#include "devices/core/device.h"

namespace leat {

Status Timeline::status() const {
  if (!failed()) return {};
  std::lock_guard lock(mutex_);
  return status_;
}

void Timeline::signal(uint64_t value) {
  uint64_t current = value_.load(std::memory_order_relaxed);
  while (current < value &&
         !value_.compare_exchange_weak(current, value, std::memory_order_seq_cst)) {
  }
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  { std::lock_guard lock(mutex_); }  // who has looked already sleeps by now
  changed_.notify_all();
  // One at a time, each called without the lock: nothing is allocated for them.
  while (true) {
    Callback due;
    {
      std::lock_guard lock(mutex_);
      const uint64_t now = value_.load(std::memory_order_acquire);
      const auto it = std::find_if(waiters_.begin(), waiters_.end(),
                                   [now](const Waiter& w) { return w.value <= now; });
      if (it == waiters_.end()) return;
      due = std::move(it->callback);
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
    changed_.notify_all();  // locked: who sees the failure may take the timeline apart
  }
  for (Waiter& waiter : released) {
    waiter.callback(reached(waiter.value) ? Status() : status);
  }
}

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
