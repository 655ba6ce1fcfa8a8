// Processes that are killed and stopped and connections that are cut, at all phases of a job, on
// real daemons that stay up: the cause is named in time, nothing is left, and the job recovers with
// the weights of one that nothing befell.
//
// LEAT_FAULTS=200 runs so many, from seed LEAT_FAULTS_SEED on; LEAT_FAULTS_DEED=kill_runner does
// nothing else.
#include <cstdlib>
#include <iostream>
#include <optional>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/fault_bench.h"
#include "tests/slowness.h"

namespace leat {
namespace {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The deed of that name; none if there is no such name.
std::optional<Deed> deed_from(const char* variable) {
  const char* text = std::getenv(variable);
  for (const Deed deed : kDeeds) {
    if (text != nullptr && name_of(deed) == text) return deed;
  }
  return std::nullopt;
}

TEST_CASE("jobs survive what befalls their processes, and say who it was") {
  const uint64_t count = number_from("LEAT_FAULTS", kSlowness > 1 ? 6 : 16);
  const uint64_t first = number_from("LEAT_FAULTS_SEED", 0);
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

TEST_CASE("a job steps on while its master is stopped for 500 ms") {
  FaultBench bench("shm", 3);
  const bool measures = std::getenv("LEAT_FAULTS") != nullptr;
  const auto ratios = bench.rates_across_stops(measures ? 9 : kSlowness > 1 ? 3 : 5);
  const double median = ratios[ratios.size() / 2];
  std::cout << "steps/s across stops of the master of 500 ms: " << median << " of those without\n";
  // On a loaded machine the rate itself moves. A job that waited for the master would never do more
  // than two thirds of the steps.
  CHECK(ratios.back() > 0.8);
  if (measures) CHECK(median > 0.9);
}

// LEAT_MASTER_KILLS=100 kills it so often, LEAT_KILL_MS=5000 so many milliseconds apart.
TEST_CASE("a job steps on while its master is killed and started again") {
  const uint64_t kills = number_from("LEAT_MASTER_KILLS", kSlowness > 1 ? 1 : 2);
  const uint64_t between = number_from("LEAT_KILL_MS", 2000);
  FaultBench bench("shm", 3);
  const auto rates =
      bench.rates_across_kills(static_cast<int>(kills), std::chrono::milliseconds(between));
  const double ratio = rates.across / rates.without;
  std::cout << "steps/s across " << kills << " kills of the master, one each " << between
            << " ms: " << rates.across << ", " << ratio << " of " << rates.without << " without\n";
  if (std::getenv("LEAT_MASTER_KILLS") != nullptr) CHECK(ratio >= 0.9);
}

}  // namespace
}  // namespace leat
