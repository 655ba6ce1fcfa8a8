// Tests workers with addresses of their own, in network namespaces: see namespaces.sh.
//
// LEAT_CUTS=40 sets the number of cuts, and LEAT_FAULTS_SEED the first seed.
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "daemon/spec/job.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/small_models.h"

namespace leat {
namespace {

TEST_CASE("workers of three addresses train one job, and one that is cut off is named") {
  const char* wanted = std::getenv("LEAT_CUTS");
  const char* first = std::getenv("LEAT_FAULTS_SEED");
  const std::string cuts = wanted != nullptr ? wanted : "2", seed = first != nullptr ? first : "0";
  const auto patience = std::chrono::seconds(90 + 20 * std::stoi(cuts));
  const SmallJob small(kTinyCnn);
  std::ofstream(small.path("job.yaml")) << print_job(small.job());
  const Finished done = run_program(
      "/bin/bash", small.path(),
      {LEAT_NAMESPACES_SCRIPT, LEAT_BINARY_DIRECTORY, small.path(), cuts, seed}, {}, patience);
  if (wanted != nullptr) std::cout << done.out;
  INFO(done.out << done.err);
  if (done.exit_code == 77) WARN("skipped: needs root and network namespaces");  // ctest reads it
  CHECK((done.exit_code == 0 || done.exit_code == 77));
}

}  // namespace
}  // namespace leat
