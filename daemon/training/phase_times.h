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

// A stopwatch with laps. Trainer makes one when it begins to read its input. A training that
// continues a job reports the text to its observer before its first step.
//
//   PhaseTimes times(clock);
//   compile();
//   times.end("plans");
//   log(times.text());  // "plans 0.12"
//
// Threads: one.
class PhaseTimes {
 public:
  // The first phase begins now. `clock` outlives it.
  explicit PhaseTimes(const Clock& clock) : clock_(clock), since_(clock.steady()) {}

  // Ends a phase; the next one begins. The duration is rounded to milliseconds.
  void end(std::string_view phase) {
    const auto now = clock_.steady();
    const std::chrono::duration<double> time = now - std::exchange(since_, now);
    texts_.push_back(cat(phase, " ", std::round(time.count() * 1000) / 1000));
  }
  // "plans 0.12, runs 0.034", in seconds. Phases in the order in which they ended; "" if none has.
  std::string text() const { return join(texts_, ", "); }

 private:
  const Clock& clock_;
  Clock::Steady since_;
  std::vector<std::string> texts_;
};

}  // namespace leat
