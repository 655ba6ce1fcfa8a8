#include "ops/state/commits.h"

#include <algorithm>

namespace leat {

// The rows go, too: they belong to steps that the variables may not contain.
void Commits::taint() {
  std::lock_guard lock(mutex_);
  whole_ = false;
  read_from_ = step_;
  std::fill(steps_.begin(), steps_.end(), 0);
}

// Rows of `step` and of later steps are dropped, since these steps run again. An entry is the
// number of its step plus one.
void Commits::declare(uint64_t step) {
  std::lock_guard lock(mutex_);
  read_rows();
  whole_ = true;
  step_ = read_from_ = step;
  for (uint64_t& of : steps_) {
    if (of > step) of = 0;
  }
}

// A plan with the same number of values keeps the rows of the plan before it.
void Commits::reserve(size_t values) {
  std::lock_guard lock(mutex_);
  read_rows();
  if (values == width_ && !steps_.empty()) return;
  read_row_ = nullptr;
  width_ = values;
  values_.assign(rows_of(values) * values, 0);
  steps_.assign(rows_of(values), 0);
}

// The newest rows overwrite the oldest. A row counts only when commit() has passed its step.
void Commits::stage(uint64_t step, std::span<const double> values) {
  std::lock_guard lock(mutex_);
  keep(step, values);
}

void Commits::keep(uint64_t step, std::span<const double> values) {
  const size_t row = step % steps_.size();
  steps_[row] = step + 1;
  std::copy_n(values.begin(), std::min(values.size(), width_),
              values_.begin() + static_cast<std::ptrdiff_t>(row * width_));
}

// The rows of the source that was there before are kept.
void Commits::read_rows_by(ReadRow read) {
  std::lock_guard lock(mutex_);
  read_rows();
  read_row_ = std::move(read);
  read_from_ = step_;
}

void Commits::read_rows() {
  if (!read_row_ || !whole_) return;
  const uint64_t rows = steps_.size();
  std::vector<double> values(width_);
  for (uint64_t step = std::max(read_from_, step_ - std::min(step_, rows)); step < step_; ++step) {
    if (read_row_(step, values)) keep(step, values);
  }
  read_from_ = step_;
}

// Called after all writes of the step, so the order of stage() and commit() is that of the step.
void Commits::commit(uint64_t step) {
  std::lock_guard lock(mutex_);
  step_ = step;
}

Held Commits::held() {
  std::lock_guard lock(mutex_);
  Held held;
  if (!whole_) return held;
  read_rows();
  held.whole = true;
  held.step = step_;
  const size_t rows = steps_.size();
  // Steps without a row are skipped: taint(), declare() or a later row has removed it.
  for (uint64_t step = step_ - std::min<uint64_t>(step_, rows); step < step_; ++step) {
    if (steps_[step % rows] != step + 1) continue;
    const double* row = values_.data() + step % rows * width_;
    held.rows.push_back({step, {row, row + width_}});
  }
  return held;
}

}  // namespace leat
