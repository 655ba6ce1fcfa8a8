#include "daemon/runner/turn_log.h"

#include <algorithm>

namespace leat {

TurnLog::TurnLog(DeviceHost& host, HostedPartition& run, News news)
    : host_(host),
      run_(run),
      news_(std::move(news)),
      first_step_(run.run().options().first_step),
      rows_(run),
      granted_(first_step_),
      limit_(first_step_) {}

void TurnLog::grant(uint64_t limit) {
  uint64_t allow;
  {
    std::lock_guard lock(mutex_);
    granted_ = std::max(granted_, limit);
    allow = next_limit();
  }
  if (allow > 0) host_.extend(run_, allow);
}

uint64_t TurnLog::hold() {
  uint64_t limit;
  {
    std::lock_guard lock(mutex_);
    limit = granted_ = limit_ = run_.run().hold();
  }
  news_(true);  // every step below the new limit may be finished already
  return limit;
}

void TurnLog::fence(uint64_t limit) {
  {
    std::lock_guard lock(mutex_);
    granted_ = limit_ = limit;
  }
  // The limit changes in the log first, so that no next_limit() allows more behind the fence.
  host_.fence(run_, limit);
  news_(true);
}

bool TurnLog::idle() const {
  std::lock_guard lock(mutex_);
  // A failed run finishes no further turn, so nothing is left to wait for.
  return failed_ || first_step_ + run_.run().turns() >= granted_;
}

uint64_t TurnLog::granted() const {
  std::lock_guard lock(mutex_);
  return granted_;
}

// Returns the limit to give the run now; 0 if the run has half a window left, so that it can wait.
// A run without fetches overwrites nothing, and gets all steps at once.
uint64_t TurnLog::next_limit() {
  if (rows_.fetches_nothing()) {
    if (granted_ <= limit_) return 0;
    return limit_ = granted_;
  }
  // The run keeps kFetchDepth fetches. With half of them allowed ahead, no value is overwritten
  // before its copy.
  const uint64_t there = first_step_ + rows_.copied();
  const uint64_t limit = std::min(granted_, there + kWindow);
  if (limit <= limit_ || (limit_ > there + kWindow / 2 && limit < granted_)) return 0;
  limit_ = limit;
  return limit;
}

// Copies the finished turns and waits for the next one. If there is no room, take() continues
// later.
void TurnLog::follow() {
  uint64_t allow, next;
  bool wait, urgent;
  {
    std::lock_guard lock(mutex_);
    rows_.copy_finished();
    allow = next_limit();
    next = rows_.copied() + 1;
    following_ = wait = rows_.has_room();
    // The master may have to allow more steps, or to empty the ring, before the run can go on.
    urgent = first_step_ + rows_.copied() >= granted_ || rows_.half_full();
  }
  if (allow > 0) host_.extend(run_, allow);
  if (next > 1) news_(urgent);
  if (!wait) return;
  // The closure is small and trivial, so that the callback allocates nothing.
  run_.run().finished().when(next, [this](const Status& status) {
    if (status.ok()) {
      follow();
    } else {
      ended();
    }
  });
}

void TurnLog::ended() {
  {
    std::lock_guard lock(mutex_);
    following_ = false;
    failed_ = true;
  }
  news_(true);
}

bool TurnLog::take(RunReport& report, size_t most) {
  bool resume, news;
  {
    std::lock_guard lock(mutex_);
    const uint64_t before = rows_.taken();
    // After a failure nothing calls follow(), so the turns that finished before are copied here.
    const bool all = failed_ && rows_.copy_finished();
    rows_.take(report, most);
    // A turn is reported together with its row, so the master never counts a turn whose row is
    // missing.
    report.turns = rows_.taken();
    news = rows_.taken() > before || !report.rows.empty();
    // The failure goes with the last row, because the master ends the run when it learns of it.
    if (all && rows_.taken() == rows_.copied() && !failure_reported_) {
      report.failure = run_.run().status();
      failure_reported_ = news = true;
    }
    resume = !failed_ && !following_;
    // This call has made room. Exactly one thread goes on with follow(), so that turns are copied
    // in order.
    if (resume) following_ = true;
  }
  if (resume) follow();
  return news;
}

}  // namespace leat
