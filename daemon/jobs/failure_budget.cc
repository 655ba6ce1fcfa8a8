#include "daemon/jobs/failure_budget.h"

#include <algorithm>

namespace leat {

// A failure at step s counts until the job has done step s + kForgivenAfter.
size_t FailureBudget::recent(uint64_t step) const {
  return static_cast<size_t>(std::count_if(steps_.begin(), steps_.end(), [&](uint64_t failed_at) {
    return step < failed_at + kForgivenAfter;
  }));
}

std::chrono::milliseconds FailureBudget::add(uint64_t step) {
  std::erase_if(steps_, [&](uint64_t failed_at) { return step >= failed_at + kForgivenAfter; });
  steps_.push_back(step);
  return pause(step);
}

std::chrono::milliseconds FailureBudget::pause(uint64_t step) {
  // A failure at the farthest step itself is one without progress, so `<=`.
  const bool again = farthest_ && step <= *farthest_;
  // A job that went back to a checkpoint may fail at an earlier step: the farthest step stays.
  farthest_ = std::max(farthest_.value_or(step), step);
  in_vain_ = again ? in_vain_ + 1 : 0;
  // The wait after the failures in vain 1, 2, 3, 4, ... is 0, 0, 250 ms, 500 ms, ... up to 30 s.
  std::chrono::milliseconds wait{0};
  for (int i = kAtOnce; i < in_vain_ && wait < kLongestWait; ++i)
    wait = std::min(wait.count() == 0 ? kFirstWait : 2 * wait, kLongestWait);
  return wait;
}

}  // namespace leat
