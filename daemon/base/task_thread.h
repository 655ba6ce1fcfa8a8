// A named thread that does what it is given, in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace leat {

// Threads: any. Tasks must not throw.
class TaskThread {
 public:
  using Task = std::function<void()>;

  // With a `period`, `tick` runs on the thread too, as often as that, between two tasks.
  explicit TaskThread(const std::string& name, std::chrono::milliseconds period = {},
                      Task tick = {});
  ~TaskThread() { stop(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Does not wait. False: it has stopped, and the task is gone undone.
  bool post(Task task);
  // Does what was posted before, then ends the thread. Not from the thread.
  void stop();
  // Tasks that wait.
  size_t waiting() const;

 private:
  void run(const std::string& name);
  // What was posted, or nothing when a tick is due or the end has come.
  std::deque<Task> next(std::chrono::steady_clock::time_point due, bool& stopping);

  const std::chrono::milliseconds period_;
  const Task tick_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace leat
