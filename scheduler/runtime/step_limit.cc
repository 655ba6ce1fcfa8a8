#include "scheduler/runtime/step_limit.h"

#include <utility>

#include "devices/base/text.h"

namespace leat {

void StepLimit::extend(uint64_t limit) {
  const std::lock_guard lock(changing_);
  // After hold() or fence() the ceiling is what they left, so a late extend() changes nothing.
  limit = std::min(limit, ceiling_);
  if (limit > limit_.load(std::memory_order_relaxed))
    limit_.store(limit, std::memory_order_release);
}

uint64_t StepLimit::hold() {
  const std::lock_guard lock(changing_);
  const uint64_t most = limit_.load(std::memory_order_relaxed);
  // Steps that are begun cannot be taken back, so the limit stays above them.
  const auto begun = [&] {
    return std::min(most, options_.first_step + claimed_.load(std::memory_order_seq_cst));
  };
  uint64_t limit = options_.first_step;
  // A claim may come between reading the claim and lowering the limit: then look again.
  for (bool sure = false; !sure;) {
    limit = begun();
    limit_.store(limit, std::memory_order_seq_cst);
    sure = limit == begun();
  }
  return ceiling_ = limit;
}

void StepLimit::fence(uint64_t limit) {
  const std::lock_guard lock(changing_);
  ceiling_ = limit;
  limit_.store(limit, std::memory_order_seq_cst);
}

// Writes the pause first and reads the claim then, as lowering the limit does: a run that has
// claimed the step meanwhile is seen here, and a run that claims it later sees the pause.
Status StepLimit::between_steps(uint64_t step, std::function<void()> between) {
  const std::lock_guard lock(changing_);
  const uint64_t turns = step - options_.first_step;
  // The callback is set before the pause, and call_between() takes it under the same lock.
  between_ = std::move(between);
  pause_.store(turns, std::memory_order_seq_cst);
  const uint64_t claimed = claimed_.load(std::memory_order_seq_cst);
  if (step >= options_.first_step && claimed <= turns) return {};
  pause_.store(kNever, std::memory_order_seq_cst);
  between_ = nullptr;
  return failed_precondition(cat(options_.name, ": expected step ", step, " not to be begun, ",
                                 options_.first_step + claimed, " are"));
}

bool StepLimit::claim(uint64_t turns) {
  // Only this thread writes the claim. Turns that were claimed before may go on, whatever the limit
  // is.
  if (turns <= claimed_.load(std::memory_order_relaxed)) return true;
  claimed_.store(turns, std::memory_order_seq_cst);
  return turns <= std::min(limit_.load(std::memory_order_seq_cst) - options_.first_step,
                           pause_.load(std::memory_order_seq_cst));
}

// Takes the callback out under the lock and calls it without: it may set the next one.
void StepLimit::call_between() {
  std::function<void()> between;
  {
    const std::lock_guard lock(changing_);
    between.swap(between_);
    pause_.store(kNever, std::memory_order_seq_cst);
  }
  if (between) between();
}

}  // namespace leat
