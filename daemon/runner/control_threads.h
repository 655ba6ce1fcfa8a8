// Threads for work that blocks: making links, kernels, files of variables. There are as many as are
// needed at one time, so that a run which waits for its peers never holds up another one.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/base/task_thread.h"

namespace leat {

// JobRunner has one for its runs, and JobData one for slow work. Threads are made on demand and
// kept until stop().
//
//   ControlThreads control;
//   auto strand = control.strand();
//   strand.post([&] { run.prepare(plan); });
//   strand.post([&] { run.connect(setup); });  // begins after prepare() has returned
//
// A strand with work has one TaskThread to itself until that work is done; the thread then serves
// the next strand. Threads: any.
class ControlThreads {
 private:
  struct Queue {
    std::deque<std::function<void()>> work;
    // True while a thread works for this queue.
    bool served = false;
  };

 public:
  // Work that is done in order, one piece after the other. A value; copies are the same strand.
  // Threads: any. Queued work lives as long as the queue, so a strand itself may be destroyed
  // before its work is done.
  class Strand {
   public:
    // The threads outlive it.
    explicit Strand(ControlThreads& threads)
        : threads_(&threads), queue_(std::make_shared<Queue>()) {}
    // Does it later, on one of the threads. Drops it if the threads have stopped. Never blocks on
    // other work. Dropped work is destroyed without being called.
    void post(std::function<void()> work) { threads_->post(queue_, std::move(work)); }

   private:
    ControlThreads* threads_;
    std::shared_ptr<Queue> queue_;
  };

  ControlThreads() = default;
  ~ControlThreads() { stop(); }
  ControlThreads(const ControlThreads&) = delete;
  ControlThreads& operator=(const ControlThreads&) = delete;

  // The threads outlive it. Each call makes another strand, without a thread of its own.
  Strand strand() { return Strand(*this); }
  // Returns when the work that runs now is done; drops what has not begun. Not from a strand. May
  // be called again. Later posts are dropped.
  void stop();

 private:
  void post(const std::shared_ptr<Queue>& queue, std::function<void()> work);
  // The work of one thread for one strand.
  void serve(Queue& queue, TaskThread& thread);

  std::mutex mutex_;
  bool stopped_ = false;
  std::vector<TaskThread*> idle_;  // of threads_
  std::vector<std::unique_ptr<TaskThread>> threads_;
};

}  // namespace leat
