// The compute threads of a CPU device.
//
// One parallel region at a time: the caller becomes thread 0 and the others join it. What they
// share is up to the region's function (the executor gives a list of tiles claimed with a counter).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace leat::cpu {

// Threads: run() from one thread at a time; the destructor joins.
class Pool {
 public:
  // `threads` >= 1, the caller of run() included. Names the threads "compute/1", ...
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return threads_; }

  // Runs work(context, t) once for every t in [0, threads()), t = 0 on the caller, and returns when
  // all have returned. Allocates nothing.
  void run(void (*work)(void* context, int thread), void* context);

 private:
  void loop(int thread);
  // Waits until the generation differs from `seen`: spins with sched_yield first, then parks.
  uint64_t wait_for_work(uint64_t seen);

  const int threads_;
  std::atomic<uint64_t> generation_{0};  // one more for every region
  std::atomic<int> running_{0};          // helpers still inside the region
  std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
  void (*work_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> helpers_;
};

}  // namespace leat::cpu
