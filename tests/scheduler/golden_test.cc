// Tests plans against golden text, so that a reviewer sees a change of a pass as a change of a
// file. After an intended change, run LEAT_WRITE_GOLDEN=1 scheduler_tests "[golden]" and look at
// the difference.
#include "tests/scheduler/example_plans.h"
#include "tests/scheduler/golden_text.h"

namespace leat {
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
