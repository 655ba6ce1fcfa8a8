// Measures how long the phases of a start take, for people.
#pragma once

#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/base/clock.h"
#include "devices/base/text.h"

namespace leat {

// Threads: one.
class PhaseTimes {
 public:
  // The first phase begins now. `clock` outlives it.
  explicit PhaseTimes(const Clock& clock) : clock_(clock), since_(clock.steady()) {}

  // Ends a phase; the next one begins.
  void end(std::string_view phase) {
    const auto now = clock_.steady();
    const std::chrono::duration<double> time = now - std::exchange(since_, now);
    texts_.push_back(cat(phase, " ", std::round(time.count() * 1000) / 1000));
  }
  // "plans 0.12, runs 0.034", in seconds.
  std::string text() const { return join(texts_, ", "); }

 private:
  const Clock& clock_;
  Clock::Steady since_;
  std::vector<std::string> texts_;
};

}  // namespace leat
