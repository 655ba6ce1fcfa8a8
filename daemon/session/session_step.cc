#include "daemon/session/session_step.h"

#include "daemon/session/session_core.h"
#include "devices/base/patience.h"
#include "devices/base/text.h"

namespace leat {

SessionStep::SessionStep(SessionCore& core, std::shared_ptr<PlanEntry> entry,
                         std::unique_ptr<PlanRun> run)
    : core_(core), entry_(std::move(entry)), run_(std::move(run)) {}

std::string SessionStep::subject(uint64_t number) const {
  return cat("step ", number, " of session '", core_.options().name, "'");
}

void SessionStep::begin(StepRequest request) {
  std::lock_guard lock(mutex_);
  number_ = request.number;
  deadline_ = request.deadline;
  finished_ = std::move(request.finished);
  // The step waits for its ticket from now on, and may be ended at any moment.
  state_ = State::waiting;
  has_ticket_ = false;
  over_.store(false, std::memory_order_relaxed);
}

Status SessionStep::feed(std::span<const Tensor> values) {
  std::lock_guard lock(run_mutex_);
  for (size_t i = 0; i < values.size(); ++i)
    LEAT_RETURN_IF_ERROR(run_->feed(static_cast<uint32_t>(i), values[i]));
  return {};
}

void SessionStep::launch() {
  // A step without a ticket starts at once. Else admitted() may be called by the thread that gives
  // another ticket back.
  if (entry_->made.uses.empty() || core_.tickets().take(*this, entry_->made.uses)) {
    admitted();
    return;
  }
  // It may have been ended before it had a ticket to withdraw.
  bool ended;
  {
    std::lock_guard lock(mutex_);
    ended = state_ == State::failing;
  }
  if (ended && core_.tickets().withdraw(*this)) finish();
}

void SessionStep::admitted() {
  const size_t parts = run_->partitions();
  bool ended;
  {
    std::lock_guard lock(mutex_);
    has_ticket_ = !entry_->made.uses.empty();
    ended = state_ == State::failing;
    if (!ended) {
      state_ = State::running;
      // One more than the partitions, so the step cannot be over while this function still uses it.
      remaining_ = parts + 1;
    }
  }
  // The end came between the wait and the ticket. It has the ticket now, so it ends as a running
  // step does.
  if (ended) {
    core_.retire(*this);
    return;
  }
  const uint64_t turn = ++turns_;
  {
    std::lock_guard lock(run_mutex_);
    // Kernels see the session's number of the step, and the run its own count of turns.
    run_->renumber(number_);
    run_->extend(turn);
  }
  for (size_t p = 0; p < parts; ++p)
    run_->finished_on(p).when(turn, [this](const Status& status) { part_over(status); });
  part_over(Status());  // nothing of the step is touched here any more
}

// This often runs on a driver's thread, so it must not block, and must not free the objects that
// the thread is driving.
void SessionStep::part_over(const Status& status) {
  bool failed = false, finished = false;
  {
    std::lock_guard lock(mutex_);
    // The first failure is the cause; those of the other partitions follow from it.
    if (!status.ok() && state_ == State::running) {
      state_ = State::failing;
      cause_ = status;
      failed = true;
    }
    --remaining_;
    finished = remaining_ == 0 && state_ == State::running;
    if (remaining_ == 0) changed_.notify_all();
  }
  if (failed) core_.retire(*this);
  if (finished) finish();
}

void SessionStep::finish() {
  // The ticket goes back first: once the step is over, it may serve another request.
  if (has_ticket_) core_.tickets().give_back(*this);
  std::function<void()> finished;
  {
    std::lock_guard lock(mutex_);
    finished.swap(finished_);
    state_ = State::over;
    over_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  if (finished) finished();  // the step may have another owner by now
}

void SessionStep::end(uint64_t number, const Status& cause) {
  State before;
  {
    std::lock_guard lock(mutex_);
    before = state_;
    // The step may serve another request by now, or has ended already.
    if (number_ != number || (before != State::waiting && before != State::running)) return;
    state_ = State::failing;
    cause_ = cause;
  }
  if (before == State::running) {
    core_.retire(*this);
  } else if (core_.tickets().withdraw(*this)) {
    finish();  // nothing of it has run
  }            // else it is being launched, which will see the end
}

void SessionStep::expire(uint64_t number) {
  // A step either waits for a ticket, or its hosts can say what they wait for.
  std::string detail = core_.tickets().waits_for(*this);
  if (!detail.empty()) {
    detail = cat("waits for ", detail);
  } else {
    std::lock_guard lock(run_mutex_);
    detail = run_->waits_for();
  }
  end(number, deadline_exceeded(cat(subject(number), " did not finish in time: ", detail)));
}

void SessionStep::retire() {
  Status cause;
  {
    std::lock_guard lock(mutex_);
    cause = cause_;
  }
  {
    std::lock_guard lock(run_mutex_);
    run_->abort(cause);
    // After stop() no host computes anything of the step, so its memory and its variables are at
    // rest.
    run_->stop();
  }
  {
    std::unique_lock lock(mutex_);
    // The timelines still call part_over() for each partition, and the step must outlive that.
    changed_.wait(lock, [&] { return remaining_ == 0; });
  }
  finish();
}

void SessionStep::wait() {
  // A short step is over before a thread would have gone to sleep and woken up, so it looks for a
  // while first.
  Patience& patience = step_patience();
  while (!over() && patience.look_again()) {
  }
  patience.progress();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ == State::over; });
}

Result<std::vector<Tensor>> SessionStep::take_fetches() {
  if (!cause_.ok()) return cause_;
  std::vector<Tensor> out;
  std::lock_guard lock(run_mutex_);
  const auto n = static_cast<uint32_t>(entry_->made.plan->fetches.size());
  // The turns count from 1, and the run's steps from 0.
  for (uint32_t i = 0; i < n; ++i) out.push_back(run_->fetched(i, turns_ - 1));
  return out;
}

}  // namespace leat
