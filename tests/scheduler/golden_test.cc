// Tests plans against golden text, so that a reviewer sees a change of a pass as a change of a
// file. After an intended change, run LEAT_WRITE_GOLDEN=1 scheduler_tests "[golden]" and look at
// the difference.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/scheduler/example_plans.h"

namespace leat {
namespace {

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LEAT_SOURCE_DIR) + "/tests/scheduler/golden/" + name;
  if (std::getenv("LEAT_WRITE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream in(path);
  REQUIRE(in.good());
  std::ostringstream golden;
  golden << in.rdbuf();
  CHECK(text == golden.str());
}

}  // namespace

TEST_CASE("the plan of a small network on one worker is as the golden file says", "[golden]") {
  check_golden("small_1_worker.txt", small_plan(1, 1).text());
}

TEST_CASE("the plan of two mirrored workers is as the golden file says", "[golden]") {
  check_golden("small_2_workers.txt", small_plan(2, 2).text());
}

TEST_CASE("the plan of two workers and two parameter servers is as the golden file says",
          "[golden]") {
  check_golden("small_2_servers.txt", small_server_plan(2, 2, 2).text());
}

}  // namespace leat
