// The state, other than the variables, that the sessions of one job share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "daemon/hosts/variable_tickets.h"

namespace leat {

// A mutex for std::unique_lock whose wait has a deadline. (ThreadSanitizer does not see the waits
// of std::timed_mutex.)
class DeadlineMutex {
 public:
  // Returns false if the mutex was not free until the deadline.
  bool try_lock_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_until(lock, deadline, [&] { return !held_; })) return false;
    held_ = true;
    return true;
  }
  void unlock() {
    std::lock_guard lock(mutex_);
    held_ = false;
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool held_ = false;
};

// The sessions of a job share one of these. Threads: `homes` only under `compiling`; the others
// any.
struct SessionJob {
  VariableTickets tickets;
  // Held during the compilation of a plan: the next compilation must know where this one puts new
  // state.
  DeadlineMutex compiling;
  // The device of each resource that a plan has placed, by op and name. Guarded by `compiling`.
  std::map<std::string, std::string> homes;
};

}  // namespace leat
