// A note that the current thread is stepping a run.
#pragma once

#include <utility>

namespace leat {

// While one lives, its thread is at work for a run and has no time to advance another one.
//
// Threads: an object belongs to the thread that made it.
class AtWork {
 public:
  AtWork() : before_(std::exchange(here_, true)) {}
  ~AtWork() { here_ = before_; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

  // True while this thread is at work for any run.
  static bool here() { return here_; }

 private:
  static inline thread_local bool here_ = false;
  const bool before_;
};

}  // namespace leat
