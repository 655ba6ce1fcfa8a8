#include "daemon/client/step_queue.h"

#include "daemon/client/wire_remote_step.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kMostSteps = 4'096;

}  // namespace

StepQueue::~StepQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Status StepQueue::add(const State& state) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMostSteps) {
    return resource_exhausted(
        cat("a step of a lasting session: expected fewer than ", kMostSteps, " that wait"));
  }
  waiting_.push_back(state);
  changed_.notify_all();
  return {};
}

Status StepQueue::await_all(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, deadline, [&] { return waiting_.empty() && !busy_; })) return {};
  return deadline_exceeded(cat("the call waited for ", waiting_.size() + 1,
                               " steps of the session that were started before it"));
}

void StepQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const State state = std::move(waiting_.front());
    waiting_.pop_front();
    const bool stop = stop_;
    busy_ = true;
    lock.unlock();
    state->finish(
        stop ? Result<StepFetches>(cancelled("the session was closed before the step began"))
             : run_(state));
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace leat
