// Times that the docs promise. A loaded machine keeps none of them, so an ordinary test only
// asserts that an event happens at all, before a deadline that is far longer. With LEAT_TIMES=1 the
// tests check the promises, too: `deploy/chaos` and `deploy/test --long` set it and run those tests
// alone.
#pragma once

#include <chrono>
#include <cstdlib>

#include "tests/catch.h"
#include "tests/slowness.h"

namespace leat {

inline bool times_are_checked() { return std::getenv("LEAT_TIMES") != nullptr; }

// Checks a time against `promise`, which is for a machine without sanitizers.
inline void check_promised(std::chrono::milliseconds took, std::chrono::milliseconds promise) {
  if (times_are_checked()) CHECK(took < promise * kSlowness);
}

// The same for the time since `begun`.
inline void check_promised(std::chrono::steady_clock::time_point begun,
                           std::chrono::milliseconds promise) {
  using std::chrono::milliseconds;
  const auto took = std::chrono::steady_clock::now() - begun;
  check_promised(std::chrono::duration_cast<milliseconds>(took), promise);
}

}  // namespace leat
