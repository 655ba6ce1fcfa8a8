#include "devices/base/patience.h"

#include <thread>

#include "tests/catch.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpin = 200us;

// Counts the waits that park at once, each of which ends with news.
int parks(Patience& patience, Patience::Clock::time_point now) {
  int parked = 0;
  while (parked < 1000 && !patience.may_spin(now)) {
    patience.progress();
    ++parked;
  }
  return parked;
}

TEST_CASE("a waiter spins for its time and then parks") {
  Patience patience(kSpin);
  const Patience::Clock::time_point start{};
  CHECK(patience.may_spin(start));
  CHECK(patience.may_spin(start + kSpin));
  CHECK_FALSE(patience.may_spin(start + kSpin + 1us));
}

TEST_CASE("a waiter without time to spin never yields") {
  Patience patience(0us);
  CHECK_FALSE(patience.look_again());
}

TEST_CASE("a long yield makes the next waits park, the longer the more") {
  const Patience::Clock::time_point start{};
  const auto parks_after = [&](Patience::Clock::duration took) {
    Patience patience(kSpin);
    CHECK(patience.may_spin(start));
    patience.yielded(took);
    return parks(patience, start);
  };
  CHECK(parks_after(60us) == 0);
  CHECK(parks_after(200us) == 10);
  CHECK(parks_after(4ms) == 200);
  CHECK(parks_after(1s) == 200);
}

TEST_CASE("spins in vain grow rare, and one that finds something brings them back") {
  Patience patience(kSpin);
  Patience::Clock::time_point now{};
  const auto spin_in_vain = [&] {
    REQUIRE(patience.may_spin(now));
    now += kSpin + 1us;
    REQUIRE_FALSE(patience.may_spin(now));
  };
  int before = -1;
  for (int i = 0; i < 10; ++i) {
    spin_in_vain();
    const int parked = parks(patience, now);  // after that it spins
    CHECK((parked > before || parked == 63));
    before = parked;
  }
  CHECK(before == 63);
  patience.progress();
  spin_in_vain();
  CHECK(parks(patience, now) == 0);
}

TEST_CASE("a waiter that counts its yields parks after them, each wait anew") {
  Patience patience(SpinLimits{
      .spin = 1h, .yields = 3, .long_yield = 40us, .per_park = 200ns, .most_parks = 200});
  const Patience::Clock::time_point now{};
  for (int wait = 0; wait < 3; ++wait) {
    for (int i = 0; i < 3; ++i) CHECK(patience.may_spin(now));
    CHECK_FALSE(patience.may_spin(now));
    patience.progress();
  }
  CHECK(patience.may_spin(now));
  patience.yielded(41us);
  CHECK(parks(patience, now) == 200);
}

TEST_CASE("a long yield makes the next waits of its thread park, in a step, too") {
  std::thread([] {
    const Patience::Clock::time_point now{};
    CHECK(parks(step_patience(), now) == 0);
    step_patience().yielded(40us);
    CHECK(parks(step_patience(), now) == 0);
    step_patience().yielded(41us);
    CHECK(parks(step_patience(), now) == 200);
    step_patience().yielded(1s);
    CHECK(parks(step_patience(), now) == 200);
  }).join();
}

}  // namespace
}  // namespace leat
