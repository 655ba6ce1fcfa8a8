// Tests which points the heartbeats of a worker become.
#include "daemon/jobs/usage_history.h"

#include "tests/catch.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

Clock::Steady at(std::chrono::milliseconds time) { return Clock::Steady(time); }

TEST_CASE("heartbeats of ten seconds become a point") {
  UsageHistory history;
  CHECK(history.points() == nullptr);
  history.add({5000, 100}, at(1s), 1'000);  // from here on
  history.add({9000, 200}, at(6s), 6'000);
  CHECK(history.points() == nullptr);
  history.add({20'000, 300}, at(11s), 11'000);
  REQUIRE(history.points() != nullptr);
  const auto first = history.points();
  REQUIRE(first->size() == 1);
  CHECK(first->at(0).at_ms == 11'000);
  CHECK(first->at(0).cores == 1.5);
  CHECK(first->at(0).resident_bytes == 300);
  // A longer gap counts with its real length.
  history.add({40'000, 400}, at(31s), 31'000);
  CHECK(history.points()->size() == 2);
  CHECK(history.points()->at(1).cores == 1);
  CHECK(first->size() == 1);  // points that a reader has do not change
}

TEST_CASE("another process begins a new point, and old points go") {
  UsageHistory history;
  history.add({50'000, 1}, at(0s), 0);
  history.add({10, 1}, at(5s), 5'000);  // its CPU time begins anew
  history.add({5010, 1}, at(10s), 10'000);
  CHECK(history.points() == nullptr);
  history.add({10'010, 1}, at(15s), 15'000);
  REQUIRE(history.points() != nullptr);
  CHECK(history.points()->at(0).cores == 1);
  for (int i = 2; i <= 200; ++i)
    history.add({10'010 + 10'000u * static_cast<unsigned>(i), 1}, at(15s + i * 10s), 15'000 + i);
  CHECK(history.points()->size() == UsageHistory::kMostPoints);
  CHECK(history.points()->back().at_ms == 15'200);
  CHECK(history.points()->front().at_ms == 15'021);
}

}  // namespace
}  // namespace leat
