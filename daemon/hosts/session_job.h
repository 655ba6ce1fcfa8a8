// What the sessions of one job share beside the variables themselves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "daemon/hosts/variable_tickets.h"

namespace leat {

// A mutex that is waited for until a deadline, for std::unique_lock. (std::timed_mutex would do,
// but ThreadSanitizer does not see its waits.)
class DeadlineMutex {
 public:
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

struct SessionJob {
  VariableTickets tickets;
  // Held while a plan is made: where it puts new state is known before the next plan asks.
  DeadlineMutex compiling;
  // The device of each resource that a plan has placed, by op and name; under `compiling`.
  std::map<std::string, std::string> homes;
};

}  // namespace leat
