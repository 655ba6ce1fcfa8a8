// A named thread that runs the tasks of its queue in order. Other classes of the daemons that queue
// work for a thread use it: ControlThreads (runner), JournalThread (master).
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

  // With a `tick`, the thread also calls it once in each `period`, between two tasks.
  explicit TaskThread(const std::string& name, std::chrono::milliseconds period = {},
                      Task tick = {});
  ~TaskThread() { stop(); }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Does not block. False: the thread has stopped, and the task is dropped.
  bool post(Task task);
  // Blocks until the tasks that were posted before are done and the thread has ended. Not from the
  // thread itself.
  void stop();
  // Returns the number of tasks in the queue.
  size_t waiting() const;

 private:
  void run(const std::string& name);
  // Waits for tasks, for a tick that is due, or for the end, and takes the tasks.
  std::deque<Task> next(std::chrono::steady_clock::time_point due, bool& stopping);

  const std::chrono::milliseconds period_;
  const Task tick_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace leat
