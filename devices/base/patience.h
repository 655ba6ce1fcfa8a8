// How a thread waits for the next thing: spin a little, then park.
//
// Waking a parked thread costs tens of microseconds, of which the waker pays a third, so while a
// step is in flight it pays to look again and again, yielding the core each time (never with pause:
// a core that is wanted must be given up). Two things say that it does not pay: a yield that takes
// long, for then somebody computes on this core and spinning only takes from both; and a spin that
// ends in vain. After the first, the next waits park at once, the more the longer the yield took;
// after the second likewise, and twice as many each time, until a spin finds something.
#pragma once

#include <chrono>

namespace leat {

// Threads: one.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  // Spins for `spin` at most; 0 parks at once.
  explicit Patience(std::chrono::microseconds spin) : spin_(spin) {}

  // A look found something.
  void progress() {
    if (spinning_) in_vain_ = 0;
    spinning_ = false;
  }
  // After a look that found nothing: true, having yielded, if it is to look again; false to park.
  bool look_again();

  // What look_again() decides by. May it yield now?
  bool may_spin(Clock::time_point now);
  // So long a yield took.
  void yielded(Clock::duration took);

 private:
  const std::chrono::microseconds spin_;
  Clock::time_point since_;
  bool spinning_ = false;
  int parks_ = 0;    // waits to come that park at once
  int in_vain_ = 0;  // what the last spin in vain made of it
};

}  // namespace leat
