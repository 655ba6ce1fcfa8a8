#include "devices/base/patience.h"

#include <sched.h>

#include <algorithm>
#include <limits>

namespace leat {
namespace {

using namespace std::chrono_literals;

// For threads that serve links and calls. Other waiting threads yield again at once, and threads
// with something to do for a step are done soon; a thread that computes keeps the core for
// milliseconds. A wait that need not park gains about 20 us, so as many waits park as it takes to
// make good for the long yield.
constexpr SpinLimits kServing{.yields = std::numeric_limits<int>::max(),
                              .long_yield = 100us,
                              .per_park = 20us,
                              .most_parks = 200,
                              .most_in_vain = 64};

// For threads that compute a step or wait for one. The number of yields ends a spin, not the time:
// they take about a millisecond on an idle machine. Any long yield makes `most_parks` waits park.
constexpr SpinLimits kStep{.spin = std::chrono::hours(1),
                           .yields = 2000,
                           .long_yield = 40us,
                           .per_park = 200ns,
                           .most_parks = 200};

SpinLimits serving(std::chrono::microseconds spin) {
  SpinLimits limits = kServing;
  limits.spin = spin;
  return limits;
}

constinit thread_local Patience this_threads_patience(kStep);

}  // namespace

Patience::Patience(std::chrono::microseconds spin) : Patience(serving(spin)) {}

Patience& step_patience() { return this_threads_patience; }

bool Patience::may_spin(Clock::time_point now) {
  if (!spinning_) {
    if (parks_ > 0) {
      --parks_;
      return false;
    }
    spinning_ = true;
    since_ = now;
    yields_ = 0;
  }
  if (now - since_ <= limits_.spin && yields_ < limits_.yields) {
    ++yields_;
    return true;
  }
  spinning_ = false;
  in_vain_ = std::min(2 * in_vain_ + 1, limits_.most_in_vain);
  parks_ = in_vain_ - 1;  // this wait is the first that parks
  return false;
}

void Patience::yielded(Clock::duration took) {
  if (took <= limits_.long_yield) return;
  parks_ =
      static_cast<int>(std::min<Clock::duration::rep>(took / limits_.per_park, limits_.most_parks));
  spinning_ = false;
}

bool Patience::look_again() {
  if (limits_.spin.count() == 0) return false;
  const auto now = Clock::now();
  if (!may_spin(now)) return false;
  sched_yield();
  yielded(Clock::now() - now);
  return true;
}

}  // namespace leat
