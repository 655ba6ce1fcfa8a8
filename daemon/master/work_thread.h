// A thread for what may wait: disk, and what takes longer than an event loop can spare.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "devices/base/status.h"

namespace leat {

// Does one thing after another, in the order of the posts. Who posts sees to it that the queue has
// a bound. Threads: any.
class WorkThread {
 public:
  // `name`: at most 15 bytes. resource_exhausted when there is no thread to be had.
  static Result<std::unique_ptr<WorkThread>> start(const std::string& name);
  ~WorkThread() { stop(); }
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // False: it has stopped, and `work` is gone undone.
  bool post(std::function<void()> work);
  // Waits for the work that is being done; the rest is dropped undone. Not from the thread itself.
  void stop();

 private:
  WorkThread() = default;
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace leat
