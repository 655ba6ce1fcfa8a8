#include "daemon/master/work_thread.h"

#include <pthread.h>

#include <system_error>

#include "devices/base/text.h"

namespace leat {

Result<std::unique_ptr<WorkThread>> WorkThread::start(const std::string& name) {
  std::unique_ptr<WorkThread> work(new WorkThread());
  try {
    work->thread_ = std::thread([raw = work.get()] { raw->loop(); });
  } catch (const std::system_error& error) {
    return resource_exhausted(cat("thread '", name, "': ", error.what()));
  }
  ::pthread_setname_np(work->thread_.native_handle(), name.c_str());
  return work;
}

bool WorkThread::post(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  queue_.push_back(std::move(work));
  changed_.notify_one();
  return true;
}

void WorkThread::stop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock: it may post
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void WorkThread::loop() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace leat
