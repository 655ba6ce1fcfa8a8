#include "daemon/runner/control_threads.h"

#include <utility>

namespace leat {

void ControlThreads::post(const std::shared_ptr<Queue>& queue, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  queue->work.push_back(std::move(work));
  // A strand has one thread at most, which also takes what is posted meanwhile. Two threads would
  // break the strand's order.
  if (std::exchange(queue->served, true)) return;
  // A thread is never taken from a strand that blocks: a new one is made, and stays for later
  // strands.
  if (idle_.empty()) {
    threads_.push_back(std::make_unique<TaskThread>("control"));
    idle_.push_back(threads_.back().get());
  }
  TaskThread* const thread = idle_.back();
  idle_.pop_back();
  (void)thread->post([this, queue, thread] { serve(*queue, *thread); });
}

// Returns when the strand has no more work, or the threads stop.
void ControlThreads::serve(Queue& queue, TaskThread& thread) {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  std::unique_lock lock(mutex_);
  while (!stopped_ && !queue.work.empty()) {
    std::function<void()> work = std::move(queue.work.front());
    queue.work.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // it may hold the last reference to something that takes long to destroy
    lock.lock();
  }
  // The flag changes under the same lock as the check for work, so no piece is left behind
  // unserved.
  queue.served = false;
  dropped.swap(queue.work);
  idle_.push_back(&thread);
  lock.unlock();
}

void ControlThreads::stop() {
  std::vector<std::unique_ptr<TaskThread>> threads;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
  }
  // Without the lock, because each thread needs it to end its strand.
  for (const auto& thread : threads) thread->stop();
}

}  // namespace leat
