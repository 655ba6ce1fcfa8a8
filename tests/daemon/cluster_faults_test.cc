// Kills and stops processes and cuts connections, in all phases of a job, on real daemons that stay
// up. The cause must be named, nothing may be left over, and the job must end with the weights of
// an undisturbed one. With LEAT_TIMES=1 the cause must be named in time, too.
//
// LEAT_FAULTS=200 runs that number of faults, from seed LEAT_FAULTS_SEED on, and
// LEAT_FAULTS_DEED=kill_runner restricts them to one kind.
#include <cstdlib>
#include <iostream>
#include <optional>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/fault_bench.h"
#include "tests/environment_number.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"

namespace leat {
namespace {

// Returns the deed with the name that the variable has; none if there is no such name.
std::optional<Deed> deed_from(const char* variable) {
  const char* text = std::getenv(variable);
  for (const Deed deed : kDeeds) {
    if (text != nullptr && name_of(deed) == text) return deed;
  }
  return std::nullopt;
}

TEST_CASE("jobs survive faults of their processes, and name the lost process", "[faults]") {
  const uint64_t count = environment_number("LEAT_FAULTS", kSlowness > 1 ? 6 : 16);
  const uint64_t first = environment_number("LEAT_FAULTS_SEED", 0);
  const std::string transport = GENERATE("tcp", "shm");
  FaultBench bench(transport);
  const uint64_t half = (count + 1) / 2;
  for (uint64_t i = 0; i < half; ++i) {
    Fault fault = draw_fault(first + i + (transport == "tcp" ? 0 : half));
    fault.deed = deed_from("LEAT_FAULTS_DEED").value_or(fault.deed);
    const bool sockets = transport == "tcp" && FaultBench::can_close_sockets();
    if (fault.deed == Deed::close_sockets && !sockets) fault.deed = Deed::kill_runner;
    const FaultReport report = bench.run(fault);
    std::cout << report.line() << "\n" << std::flush;
    for (const std::string& miss : report.misses) {
      INFO(report.line());
      FAIL_CHECK(miss);
    }
  }
  CHECK(bench.run_undisturbed() == "");
  std::cout << "daemons have grown by " << bench.growth() / 1024 << " KiB\n";
}

TEST_CASE("a job steps on while its master is stopped", "[faults]") {
  FaultBench bench("shm", 3);
  CHECK(bench.steps_on_without_master());
  if (!times_are_checked()) return;
  const auto ratios = bench.rates_across_stops(9);
  const double median = ratios[ratios.size() / 2];
  std::cout << "steps/s across stops of the master of 500 ms: " << median << " of those without\n";
  CHECK(median > 0.9);
}

// LEAT_MASTER_KILLS=100 sets the number of kills, and LEAT_KILL_MS=5000 the milliseconds between
// them.
TEST_CASE("a job steps on while its master is killed and started again", "[faults]") {
  const uint64_t kills = environment_number("LEAT_MASTER_KILLS", kSlowness > 1 ? 1 : 2);
  const uint64_t between = environment_number("LEAT_KILL_MS", 2000);
  FaultBench bench("shm", 3);
  const auto rates =
      bench.rates_across_kills(static_cast<int>(kills), std::chrono::milliseconds(between));
  const double ratio = rates.across / rates.without;
  std::cout << "steps/s across " << kills << " kills of the master, one each " << between
            << " ms: " << rates.across << ", " << ratio << " of " << rates.without << " without\n";
  CHECK(rates.across > 0);
  if (times_are_checked()) CHECK(ratio >= 0.9);
}

}  // namespace
}  // namespace leat
