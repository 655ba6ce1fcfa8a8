// How a thread waits for the next thing: spin a little, then park.
//
// Waking a parked thread costs tens of microseconds, of which the waker pays a third, so while a
// step is in flight it pays to look again and again, yielding the core each time (never with pause:
// a core that is wanted must be given up). A yield that takes long says that the machine is busy:
// then spinning only takes from those who work, and the next waits park at once.
#pragma once

#include <sched.h>

#include <chrono>

namespace leat {

// Threads: one.
class Patience {
 public:
  // Spins for `spin` after the last progress; 0 parks at once.
  explicit Patience(std::chrono::microseconds spin) : spin_(spin) {}

  void progress() { spinning_ = false; }
  // After a look that found nothing: true, having yielded, if it is to look again; false to park.
  bool look_again() {
    if (spin_.count() == 0) return false;
    const auto now = Clock::now();
    if (!spinning_) {
      if (parks_ > 0) {
        --parks_;
        return false;
      }
      spinning_ = true;
      since_ = now;
    }
    if (now - since_ > spin_) {
      spinning_ = false;
      return false;
    }
    sched_yield();
    if (Clock::now() - now > kBusyYield) {
      parks_ = kParksWhenBusy;
      spinning_ = false;
    }
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kBusyYield{40};
  static constexpr int kParksWhenBusy = 200;

  const std::chrono::microseconds spin_;
  Clock::time_point since_;
  bool spinning_ = false;
  int parks_ = 0;
};

}  // namespace leat
