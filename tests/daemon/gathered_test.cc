// Calls that are made at the same time.
#include "daemon/base/gathered.h"

#include <memory>
#include <thread>

#include "tests/catch.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

TEST_CASE("answers of calls that end in time are there, and later ones change nothing") {
  Gathered calls;
  int sum = 0;
  CHECK(calls.wait(Steady::now()));  // none is made
  Gathered more;
  for (int i = 0; i < 3; ++i) more.add();
  std::thread answering([&] {
    for (int i = 0; i < 2; ++i) more.done([&] { ++sum; });
  });
  answering.join();
  CHECK_FALSE(more.wait(Steady::now()));
  CHECK(sum == 2);
  more.done([&] { ++sum; });
  CHECK(sum == 2);
}

TEST_CASE("a wait ends with the last answer") {
  Gathered calls;
  int sum = 0;
  calls.add();
  std::thread answering([&] { calls.done([&] { sum = 1; }); });
  CHECK(calls.wait(Steady::now() + 60s));
  CHECK(sum == 1);
  answering.join();
}

}  // namespace
}  // namespace leat
