// How far a run may step.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "devices/base/status.h"
#include "scheduler/runtime/run_options.h"

namespace leat {

// The limit of a run's steps, which rises while the run steps, and a pause below it at which a
// callback is due. Steps are counted as the job counts them; turns count from 0 at the run's
// first step.
//
// Lowering the limit races with the thread that advances the run. Both sides write first and read
// then, with sequential consistency: the thread that advances claims the turns that it will begin
// and reads the limit after that, and a caller that lowers the limit writes it and reads the claim
// after that. At least one of the two sees what the other wrote.
//
// Threads: extend(), hold(), fence(), between_steps() and limit() from any; the rest only on the
// thread that advances the run.
class StepLimit {
 public:
  // `options` outlives the limit. At first no step is allowed.
  explicit StepLimit(const RunOptions& options) : options_(options), limit_(options.first_step) {}

  // Allows the steps below `limit`. The limit only rises, until hold() or fence().
  void extend(uint64_t limit);
  // Takes back the allowed steps that are not begun. Returns the limit that is left; it never rises
  // again.
  uint64_t hold();
  // Sets the limit, also where it was higher; it never rises again. REQUIRES: no step from `limit`
  // on can end. Steps that are begun stay begun.
  void fence(uint64_t limit);
  uint64_t limit() const { return limit_.load(std::memory_order_acquire); }

  // Makes `between` due before step `step` begins; it replaces the callback that was due before.
  // failed_precondition if that step is begun.
  Status between_steps(uint64_t step, std::function<void()> between);

  struct Allowance {
    uint64_t turns;  // the turns below may begin
    uint64_t pause;  // call_between() is due when these turns are done
  };
  Allowance allowance() const {
    const uint64_t pause = pause_.load(std::memory_order_acquire);
    return {std::min(limit_.load(std::memory_order_acquire) - options_.first_step, pause), pause};
  }
  // Announces that the turns below `turns` are about to begin. False if they are no longer allowed:
  // then none beyond the allowance may begin.
  bool claim(uint64_t turns);
  // Calls the callback that is due and removes the pause.
  void call_between();

 private:
  static constexpr uint64_t kNever = ~uint64_t{0};

  const RunOptions& options_;
  std::mutex changing_;  // held by a caller that changes the limit or the pause
  std::atomic<uint64_t> limit_;
  uint64_t ceiling_ = kNever;         // the limit never rises above it
  std::atomic<uint64_t> claimed_{0};  // turns that are begun, or about to be
  std::atomic<uint64_t> pause_{kNever};
  std::function<void()> between_;
};

}  // namespace leat
