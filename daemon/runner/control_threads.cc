#include "daemon/runner/control_threads.h"

#include <pthread.h>

namespace leat {

void ControlThreads::post(const std::shared_ptr<Queue>& queue, std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  queue->work.push_back(std::move(work));
  if (queue->active) return;
  queue->active = true;
  runnable_.push_back(queue);
  if (runnable_.size() <= idle_) {
    changed_.notify_one();
  } else {
    threads_.emplace_back([this] {
      ::pthread_setname_np(::pthread_self(), "control");
      run();
    });
  }
}

void ControlThreads::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [&] { return stopped_ || !runnable_.empty(); });
    --idle_;
    if (stopped_) return;
    const std::shared_ptr<Queue> queue = std::move(runnable_.front());
    runnable_.pop_front();
    std::function<void()> work = std::move(queue->work.front());
    queue->work.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds may be the last of something that takes time to go
    lock.lock();
    queue->active = !queue->work.empty();
    if (queue->active) runnable_.push_back(queue);
  }
}

void ControlThreads::stop() {
  std::vector<std::thread> threads;
  std::deque<std::shared_ptr<Queue>> dropped;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
    dropped.swap(runnable_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& queue : dropped) queue->work.clear();
}

}  // namespace leat
