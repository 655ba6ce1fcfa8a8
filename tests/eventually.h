// Waits for an effect in another process or thread. A test cannot give it a clock, so it looks
// again and again until a deadline.
#pragma once

#include <chrono>
#include <thread>

namespace leat {

// Looks, with pauses of `look`, until `condition` holds (true) or `patience` is over (false).
template <typename Condition>
bool eventually(Condition condition, std::chrono::milliseconds patience = std::chrono::seconds(30),
                std::chrono::milliseconds look = std::chrono::milliseconds(1)) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(look);
  }
  return true;
}

}  // namespace leat
