// The compute threads of a CPU device.
//
// There is one parallel region at a time: the caller becomes thread 0, and the other threads join
// it. The region's function decides how the threads share the work; the executor gives them a list
// of tiles that they claim with a counter.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace leat::cpu {

// Owns its threads. Between regions they spin for a while (devices/base/patience.h) and then park.
// Threads: run() from one thread at a time; the destructor joins.
class Pool {
 public:
  // `threads` counts the caller of run(); less than 1 is taken as 1. The other threads are named
  // "compute/1", "compute/2", ...
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return threads_; }

  // Runs work(context, t) once for every t in [0, threads()), t = 0 on the caller, and returns when
  // all calls have returned. Allocates nothing.
  void run(void (*work)(void* context, int thread), void* context);

 private:
  void loop(int thread);
  // Waits until the generation differs from `seen`, and returns it. Spins with sched_yield() first,
  // then parks.
  uint64_t wait_for_work(uint64_t seen);

  const int threads_;
  // Rises by one with every region. Threads wait for that.
  std::atomic<uint64_t> generation_{0};
  // The number of pool threads that are still inside the region.
  std::atomic<int> running_{0};
  // The number of threads that need a notification to see a region.
  std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
  void (*work_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> helpers_;
};

}  // namespace leat::cpu
