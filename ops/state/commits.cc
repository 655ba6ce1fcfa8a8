#include "ops/state/commits.h"

#include <algorithm>

namespace leat {

void Commits::taint() {
  std::lock_guard lock(mutex_);
  whole_ = false;
  std::fill(steps_.begin(), steps_.end(), 0);
}

void Commits::declare(uint64_t step) {
  std::lock_guard lock(mutex_);
  whole_ = true;
  step_ = step;
  for (uint64_t& of : steps_) {
    if (of > step) of = 0;
  }
}

void Commits::reserve(size_t values) {
  std::lock_guard lock(mutex_);
  if (values == width_ && !steps_.empty()) return;
  width_ = values;
  values_.assign(rows_of(values) * values, 0);
  steps_.assign(rows_of(values), 0);
}

void Commits::stage(uint64_t step, std::span<const double> values) {
  std::lock_guard lock(mutex_);
  const size_t row = step % steps_.size();
  steps_[row] = step + 1;
  std::copy_n(values.begin(), std::min(values.size(), width_),
              values_.begin() + static_cast<std::ptrdiff_t>(row * width_));
}

void Commits::commit(uint64_t step) {
  std::lock_guard lock(mutex_);
  step_ = step;
}

Held Commits::held() const {
  std::lock_guard lock(mutex_);
  Held held;
  if (!whole_) return held;
  held.whole = true;
  held.step = step_;
  const size_t rows = steps_.size();
  for (uint64_t step = step_ - std::min<uint64_t>(step_, rows); step < step_; ++step) {
    if (steps_[step % rows] != step + 1) continue;
    const double* row = values_.data() + step % rows * width_;
    held.rows.push_back({step, {row, row + width_}});
  }
  return held;
}

}  // namespace leat
