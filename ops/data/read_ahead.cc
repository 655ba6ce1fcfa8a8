#include "ops/data/read_ahead.h"

#include <algorithm>
#include <new>
#include <system_error>

namespace leat {

void ReadAheadDepth::step(bool waited) {
  if (unsettled_ > 0) {
    --unsettled_;
    return;
  }
  if (waited) {
    calm_ = 0;
    if (depth_ == most_) return;
    const int64_t wanted = descended_ ? depth_ + 1 : std::max<int64_t>(1, 2 * depth_);
    if (descended_) calm_before_ = std::min(2 * calm_before_, kMostCalmSteps);
    depth_ = std::min(wanted, most_);
    unsettled_ = depth_;
    descended_ = false;
  } else if (depth_ > 0 && ++calm_ == calm_before_) {
    calm_ = 0;
    depth_ -= (depth_ + 3) / 4;
    descended_ = true;
  }
}

ReadAhead::ReadAhead(Limits limits, Ask ask)
    : limits_(limits), ask_(std::move(ask)), depth_(limits.most_steps) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_.store(true);
  }
  wanted_more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReadAhead::begins(int64_t batch) {
  if (limits_.most_steps == 0 || newest_.load(std::memory_order_relaxed) == batch) return;
  // Rows that could not be numbered.
  if (batch >= INT64_MAX / limits_.rows - limits_.most_steps - 1) return;
  const std::lock_guard lock(mutex_);
  const int64_t newest = newest_.load(std::memory_order_relaxed);
  // Tiles of the batch before may begin after the first one of this batch.
  if (batch == newest || (newest > 0 && batch == newest - 1)) return;
  newest_.store(batch, std::memory_order_relaxed);
  const bool waited = waited_.exchange(false, std::memory_order_relaxed);
  if (batch == newest + 1) {
    if (newest >= 0) depth_.step(waited);
  } else {
    asked_ = 0;
  }
  const int64_t depth = depth_.depth();
  shown_depth_.store(depth, std::memory_order_relaxed);
  asked_ = std::max(asked_, (batch + 1) * limits_.rows);
  wanted_ = (batch + 1 + depth) * limits_.rows;
  if (asked_ >= wanted_) return;
  try {
    while (threads_.size() < static_cast<size_t>(limits_.threads))
      threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // With fewer threads, or none, less is read ahead.
  }
  wanted_more_.notify_all();
}

void ReadAhead::work() {
  constexpr int64_t kRows = 8;  // that a thread asks for at once
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_more_.wait(lock, [&] { return ends_.load() || asked_ < wanted_; });
    if (ends_.load()) return;
    const int64_t batch = asked_ / limits_.rows, begin = asked_ % limits_.rows;
    const int64_t end = std::min(limits_.rows, begin + kRows);
    asked_ += end - begin;
    lock.unlock();
    for (int64_t row = begin; row < end && !ends_.load(); ++row) {
      try {
        ask_(batch, row, row + 1);
      } catch (const std::bad_alloc&) {
        // The row is not read ahead.
      }
    }
    lock.lock();
  }
}

}  // namespace leat
