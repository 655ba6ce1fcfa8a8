// Time as a parameter. Code that waits or stamps takes a Clock, so that tests pass hours in
// microseconds and a simulation repeats itself exactly.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace leat {

// A source of the date and of durations. An implementation owns nothing that its users could lose:
// they hold a reference, and the clock outlives them.
// Threads: any.
class Clock {
 public:
  using Wall = std::chrono::system_clock::time_point;
  using Steady = std::chrono::steady_clock::time_point;

  virtual ~Clock() = default;
  // The date, for people and for logs. It may jump either way, so no code subtracts two of them.
  virtual Wall now() const = 0;
  // A time that never goes back, for deadlines and durations.
  virtual Steady steady() const = 0;
};

// The clocks of the system. It has no state.
class RealClock final : public Clock {
 public:
  Wall now() const override { return std::chrono::system_clock::now(); }
  Steady steady() const override { return std::chrono::steady_clock::now(); }
};

// A clock that stands still until a test advances it. It starts one hour after either clock's zero,
// so that a test can write a deadline in the near past.
class ManualClock final : public Clock {
 public:
  Wall now() const override {
    return Wall(std::chrono::duration_cast<Wall::duration>(elapsed() + wall_offset()));
  }
  Steady steady() const override { return Steady(elapsed()); }

  // Moves both times forward.
  void advance(std::chrono::nanoseconds by) { elapsed_.fetch_add(by.count()); }
  // Moves now() alone, either way, as an administrator or NTP does.
  void jump_wall(std::chrono::nanoseconds by) { wall_offset_.fetch_add(by.count()); }

 private:
  std::chrono::nanoseconds elapsed() const { return std::chrono::nanoseconds(elapsed_.load()); }
  std::chrono::nanoseconds wall_offset() const {
    return std::chrono::nanoseconds(wall_offset_.load());
  }

  // Nanoseconds.
  std::atomic<int64_t> elapsed_{std::chrono::nanoseconds(std::chrono::hours(1)).count()};
  std::atomic<int64_t> wall_offset_{0};
};

}  // namespace leat
