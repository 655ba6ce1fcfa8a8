// Threads for work that blocks: making links, kernels, files of variables. As many as are needed at
// one time, so that a run which waits for its peers never holds up another one.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace leat {

class ControlThreads {
 private:
  struct Queue {
    std::deque<std::function<void()>> work;
    bool active = false;  // in `runnable_`, or being run
  };

 public:
  // Work that is done in order, one piece after the other. A value; copies are the same strand.
  // Threads: any.
  class Strand {
   public:
    // Later, on one of the threads. Dropped if those have stopped.
    void post(std::function<void()> work) { threads_->post(queue_, std::move(work)); }

   private:
    friend class ControlThreads;
    explicit Strand(ControlThreads& threads)
        : threads_(&threads), queue_(std::make_shared<Queue>()) {}
    ControlThreads* threads_;
    std::shared_ptr<Queue> queue_;
  };

  ControlThreads() = default;
  ~ControlThreads() { stop(); }
  ControlThreads(const ControlThreads&) = delete;
  ControlThreads& operator=(const ControlThreads&) = delete;

  // The threads outlive it.
  Strand strand() { return Strand(*this); }
  // Returns when what runs now is done; what has not begun is dropped. Not from a strand.
  void stop();

 private:
  void post(const std::shared_ptr<Queue>& queue, std::function<void()> work);
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Queue>> runnable_;
  size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace leat
