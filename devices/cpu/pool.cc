#include "devices/cpu/pool.h"

#include <pthread.h>
#include <sched.h>

#include <string>

#include "devices/base/patience.h"

namespace leat::cpu {

Pool::Pool(int threads) : threads_(threads < 1 ? 1 : threads) {
  for (int t = 1; t < threads_; ++t) helpers_.emplace_back([this, t] { loop(t); });
}

Pool::~Pool() {
  {
    std::lock_guard lock(mutex_);
    stop_.store(true);
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Pool::run(void (*work)(void*, int), void* context) {
  if (threads_ == 1) {
    work(context, 0);
    return;
  }
  work_ = work;
  context_ = context;
  running_.store(threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  // A thread counts itself as parked before it looks at the generation, and the generation rises
  // before this look, in one total order: a parked thread is never missed.
  if (parked_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  work(context, 0);
  // The rest of a region is short, because all its tiles are claimed.
  while (running_.load(std::memory_order_acquire) > 0) sched_yield();
}

// A thread's spin is short while the machine is busy, and then it parks at once: see Patience.
uint64_t Pool::wait_for_work(uint64_t seen) {
  Patience& patience = step_patience();
  while (patience.look_again()) {
    const uint64_t now = generation_.load(std::memory_order_acquire);
    if (now != seen) {
      patience.progress();
      return now;
    }
  }
  std::unique_lock lock(mutex_);
  parked_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return generation_.load(std::memory_order_seq_cst) != seen; });
  parked_.fetch_sub(1, std::memory_order_seq_cst);
  return generation_.load(std::memory_order_acquire);
}

// The life of a pool thread: one region after the other, until the destructor stops it.
void Pool::loop(int thread) {
  pthread_setname_np(pthread_self(), ("compute/" + std::to_string(thread)).c_str());
  uint64_t seen = 0;
  while (true) {
    seen = wait_for_work(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    work_(context_, thread);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace leat::cpu
