#include "daemon/base/task_thread.h"

#include <pthread.h>

#include <utility>

namespace leat {

TaskThread::TaskThread(const std::string& name, std::chrono::milliseconds period, Task tick)
    : period_(period), tick_(std::move(tick)), thread_([this, name] { run(name); }) {}

bool TaskThread::post(Task task) {
  const std::lock_guard lock(mutex_);
  // Checked under the lock, so that each task is either refused here or done before stop() returns.
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void TaskThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  // The destructor calls this again after an earlier stop().
  if (thread_.joinable()) thread_.join();
}

size_t TaskThread::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void TaskThread::run(const std::string& name) {
  // The system refuses a name of more than 15 bytes.
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  auto due = std::chrono::steady_clock::now() + period_;
  for (bool stopping = false; !stopping;) {
    for (Task& task : next(due, stopping)) {
      task();
      task = nullptr;  // destroys its captures now, not after the other tasks
    }
    // Many tasks may have come at once, so the tick can be late. The next one is a whole period
    // after it.
    if (!tick_ || std::chrono::steady_clock::now() < due) continue;
    tick_();
    due = std::chrono::steady_clock::now() + period_;
  }
}

std::deque<TaskThread::Task> TaskThread::next(std::chrono::steady_clock::time_point due,
                                              bool& stopping) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return stopping_ || !tasks_.empty(); };
  if (tick_) {
    changed_.wait_until(lock, due, ready);
  } else {
    changed_.wait(lock, ready);
  }
  // Taken together with the tasks: the loop does these, and then ends.
  stopping = stopping_;
  return std::exchange(tasks_, {});
}

}  // namespace leat
