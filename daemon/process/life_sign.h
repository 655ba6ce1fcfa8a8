// A sign of life of one named loop of a daemon: the time at which the loop last ran.
#pragma once

#include <atomic>
#include <memory>

#include "devices/base/clock.h"

namespace leat {

// A loop of a daemon calls beat() each time it runs; the watchdog asks for the age. The time is
// shared by all copies and lives as long as the last of them.
//
//   LifeSign heart(clock);
//   loop.post([heart] { heart.beat(); });  // on the thread of the loop
//   if (heart.age() > silence) ...         // on another thread
//
// Copies share the sign. Threads: any; a beat is one atomic store.
class LifeSign {
 public:
  // An empty sign, for a member that is assigned later.
  LifeSign() = default;
  // Counts as alive from now on. `clock` must outlive the sign.
  explicit LifeSign(const Clock& clock)
      : last_(std::make_shared<std::atomic<Clock::Steady::rep>>()), clock_(&clock) {
    beat();
  }

  // REQUIRES, for beat() and age(): the sign was made with a clock.
  void beat() const { *last_ = clock_->steady().time_since_epoch().count(); }
  // Returns the time since the last beat. Never negative, as the clock is steady.
  Clock::Steady::duration age() const {
    return clock_->steady().time_since_epoch() - Clock::Steady::duration(last_->load());
  }

 private:
  std::shared_ptr<std::atomic<Clock::Steady::rep>> last_;
  const Clock* clock_ = nullptr;
};

}  // namespace leat
