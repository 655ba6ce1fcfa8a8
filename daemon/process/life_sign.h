// A sign of life of one named loop of a daemon.
#pragma once

#include <atomic>
#include <memory>

#include "devices/base/clock.h"

namespace leat {

// Copies share the sign. Threads: any; a beat is one atomic store.
class LifeSign {
 public:
  // Shows nothing: only for a place that is filled later.
  LifeSign() = default;
  // Alive now. `clock` outlives it.
  explicit LifeSign(const Clock& clock)
      : last_(std::make_shared<std::atomic<Clock::Steady::rep>>()), clock_(&clock) {
    beat();
  }

  // The two members below: REQUIRES: made with a clock.
  void beat() const { *last_ = clock_->steady().time_since_epoch().count(); }
  // The time since the last beat.
  Clock::Steady::duration age() const {
    return clock_->steady().time_since_epoch() - Clock::Steady::duration(last_->load());
  }

 private:
  std::shared_ptr<std::atomic<Clock::Steady::rep>> last_;
  const Clock* clock_ = nullptr;
};

}  // namespace leat
