#include "daemon/jobs/run_time.h"

#include <algorithm>

#include "daemon/base/units.h"
#include "devices/base/text.h"

namespace leat {

void RunTime::restore() {
  JobTimes times = job_.times;
  times.add(job_.condition.state, context_.now.wall_ms - job_.condition.since_ms);
  spent_ = std::chrono::milliseconds(times.running);
}

void RunTime::renew() {
  counted_ = context_.now.steady;
  starts_by_ = context_.now.steady + context_.limits.start_timeout;
}

std::optional<JobLeave> RunTime::tick() {
  const JobState state = job_.condition.state;
  const bool has_workers = !runners_.assembly().all_gone();
  const bool runs = state == JobState::running || state == JobState::pausing;
  const bool counts = has_workers && (runs || state == JobState::recovering);
  if (counts && counted_)
    spent_ += std::max(context_.now.steady - *counted_, Clock::Steady::duration(0));
  counted_ = context_.now.steady;
  if (most().count() == 0 || spent_ < most() || !counts) return std::nullopt;

  const auto& limits = context_.limits;
  std::string reason =
      cat("it ran for its max_run_time of ", print_duration(job_.terms.max_run_time));
  if (state == JobState::recovering)
    return JobLeave{JobState::failed, reason + ", and was recovering"};
  if (spent_ >= most() + limits.last_save) {
    // A pause that a user asked for is no failure.
    return JobLeave{state == JobState::pausing ? JobState::paused : JobState::failed,
                    cat(reason, ", and did not come to a fence within ",
                        print_duration(limits.last_save), " after that")};
  }
  if (state == JobState::pausing) return std::nullopt;  // the run was asked to stop at a fence
  const auto& yields = runners_.run().yields();
  if (!yields || yields->then != RunYield::Then::ends) {
    runners_.run().ask_to_yield(
        {.cause = std::move(reason), .saves = true, .then = RunYield::Then::ends});
  }
  return std::nullopt;
}

std::optional<Clock::Steady> RunTime::ends_by() const {
  if (most().count() == 0) return std::nullopt;
  const auto& limits = context_.limits;
  const Clock::Steady now = context_.now.steady;
  Clock::Steady from = counted_.value_or(now);
  if (job_.condition.state == JobState::starting) {
    from = starts_by_;
  } else if (runners_.assembly().all_gone()) {
    from = now + limits.start_timeout;
  }
  const auto slack = limits.last_save + limits.stop_grace + limits.stop_timeout;
  return std::max(now, from + (most() - spent_) + slack);
}

}  // namespace leat
