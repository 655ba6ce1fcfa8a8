#include "devices/base/patience.h"

#include <sched.h>

#include <algorithm>

namespace leat {
namespace {

using namespace std::chrono_literals;

// Others that wait yield again at once, and those who have something to do for a step are done
// soon; whoever computes keeps the core for milliseconds.
constexpr auto kBusyYield = 100us;
// What a wait gains by not parking: so many park as it takes to make good for the yield.
constexpr auto kGain = 20us;
constexpr int kMostParks = 200;
constexpr int kMostInVain = 64;

}  // namespace

bool Patience::may_spin(Clock::time_point now) {
  if (!spinning_) {
    if (parks_ > 0) {
      --parks_;
      return false;
    }
    spinning_ = true;
    since_ = now;
  }
  if (now - since_ <= spin_) return true;
  spinning_ = false;
  in_vain_ = std::min(2 * in_vain_ + 1, kMostInVain);
  parks_ = in_vain_ - 1;  // this is the first
  return false;
}

void Patience::yielded(Clock::duration took) {
  if (took <= kBusyYield) return;
  parks_ = static_cast<int>(std::min<Clock::duration::rep>(took / kGain, kMostParks));
  spinning_ = false;
}

bool Patience::look_again() {
  if (spin_.count() == 0) return false;
  const auto now = Clock::now();
  if (!may_spin(now)) return false;
  sched_yield();
  yielded(Clock::now() - now);
  return true;
}

}  // namespace leat
