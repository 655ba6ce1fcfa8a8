#include "daemon/wire/runner_pulse.h"

#include "tests/catch.h"

namespace leat::testing {
namespace {

TEST_CASE("a runner's pulse is read as it was written") {
  for (const RunnerActivity activity :
       {RunnerActivity::idle, RunnerActivity::computing, RunnerActivity::waits_for_peers}) {
    const RunnerPulse pulse{
        0x0102030405060708, ~uint64_t{0},          {1, 2, 3, 4, 5, 6, ~uint64_t{0} - 1},
        {1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}, activity,
        {13, 14, 15, 16}};
    CHECK(read_pulse(write_pulse(pulse)) == pulse);
  }
}

TEST_CASE("a pulse of an unknown activity is not read") {
  auto bytes = write_pulse({});
  bytes.back() = std::byte{3};
  CHECK_FALSE(read_pulse(bytes).has_value());
}

}  // namespace
}  // namespace leat::testing
