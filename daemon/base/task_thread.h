// A named thread with a queue of tasks, which it does in order. The other classes of the daemons
// that queue work for a thread are made of it: ControlThreads (runner), JournalThread (master).
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace leat {

// Threads: any. Tasks must not throw. A task may post another.
class TaskThread {
 public:
  using Task = std::function<void()>;

  // With a `tick`, the thread also calls that once in each `period`, between two tasks.
  explicit TaskThread(const std::string& name, std::chrono::milliseconds period = {},
                      Task tick = {});
  ~TaskThread() { stop(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Does not wait. False: the thread has stopped, and the task is dropped.
  bool post(Task task);
  // Returns when the tasks that were posted before are done, and the thread has ended. Not from the
  // thread.
  void stop();
  // The number of tasks that wait.
  size_t waiting() const;

 private:
  void run(const std::string& name);
  // Waits for tasks, a tick that is due, or the end, and takes the tasks.
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
