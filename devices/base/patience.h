// How a thread waits for the next thing: it spins a little, then it parks.
//
// A parked thread takes tens of microseconds to wake, and a third of that is the time of the thread
// that wakes it. While a step is in flight it therefore pays to look again and again. Between two
// looks the thread yields the core, and never pauses it, because another thread may want the core.
//
// Two observations say that spinning does not pay:
// - A yield takes long. Another thread computes on this core then, and spinning takes time from
//   both. The next waits park at once; the longer the yield took, the more of them.
// - A spin ends in vain. The next waits park at once, and twice as many after each further spin in
//   vain, until a spin finds something.
#pragma once

#include <chrono>

namespace leat {

// The numbers that one kind of waiting is tuned by.
struct SpinLimits {
  using Duration = std::chrono::nanoseconds;

  // A spin ends after this time, and after this many yields. No time at all: every wait parks.
  Duration spin{0};
  int yields = 0;
  // A yield that takes longer is a long one. One wait parks for each `per_park` that a long yield
  // took, and `most_parks` waits at most.
  Duration long_yield{0};
  Duration per_park{1};
  int most_parks = 0;
  // After spins in vain at most this many waits park, the one that spun in vain included. 1: that
  // one alone parks, and the next one spins again.
  int most_in_vain = 1;
};

// The waits of one thread: its owner calls look_again() after each look that found nothing.
// Threads: one.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  constexpr explicit Patience(const SpinLimits& limits) : limits_(limits) {}
  // For threads that serve links and calls: spins for `spin` at most; 0 parks at once.
  explicit Patience(std::chrono::microseconds spin);

  // Ends a spin. The owner calls it when a look found something.
  void progress() {
    if (spinning_) in_vain_ = 0;
    spinning_ = false;
  }
  // The owner calls it after a look that found nothing. Returns true, after a yield, if the thread
  // is to look again, and false if it is to park.
  bool look_again();

  // The two halves of look_again(), which a test calls with times of its own. May the thread yield
  // now?
  bool may_spin(Clock::time_point now);
  // The yield took this long.
  void yielded(Clock::duration took);

 private:
  const SpinLimits limits_;
  Clock::time_point since_;
  bool spinning_ = false;
  int yields_ = 0;   // in this spin
  int parks_ = 0;    // waits to come that park at once
  int in_vain_ = 0;  // waits that parked, or will, because of the last spin in vain
};

// The patience of this thread while it waits for work of a step, or for the step's end. Each thread
// has one, which outlives the single waits, so that a long yield is remembered from one wait to the
// next. A wait ends with progress(), also one that parked.
// Threads: the result belongs to the calling thread.
Patience& step_patience();

}  // namespace leat
