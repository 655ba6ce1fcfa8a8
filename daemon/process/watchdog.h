// The check whether the watched loops of a daemon are alive, for systemd's watchdog and for the
// log.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "daemon/process/lifetime_calls.h"
#include "devices/base/log.h"

namespace leat {

// A duration for people: "1.5 s".
std::string tenths_of_seconds(Clock::Steady::duration time);

// Lifetime owns it, and its thread calls look() when due() says so. The judgement is about the
// beats that have arrived; the answers to the questions of this look count in the next one.
// Threads: one.
class Watchdog {
 public:
  // A loop that shows no life for longer than `silence` counts as silent. `calls` must outlive this
  // object.
  Watchdog(LifetimeCalls& calls, std::chrono::milliseconds silence, Logger log);

  // Returns when look() is due next, by the system's steady clock: several times in each `silence`.
  std::chrono::steady_clock::time_point due() const { return due_; }
  // Asks every watched loop to beat, and judges the beats that have arrived. Returns true if every
  // loop is alive. Logs the name of a loop that becomes silent, and its return.
  bool look(std::chrono::steady_clock::time_point now);

 private:
  bool judge(LifetimeCall& call) const;

  LifetimeCalls& calls_;
  const std::chrono::milliseconds silence_;
  const Logger log_;
  std::chrono::steady_clock::time_point due_ = std::chrono::steady_clock::now();
};

}  // namespace leat
