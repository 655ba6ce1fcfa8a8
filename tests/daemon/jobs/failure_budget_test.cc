#include "daemon/jobs/failure_budget.h"

#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
constexpr uint64_t kFar = FailureBudget::kForgivenAfter;

TEST_CASE("failures are forgotten when the job has come farther") {
  FailureBudget budget;
  CHECK(budget.add(100) == milliseconds(0));
  CHECK(budget.add(200) == milliseconds(0));
  CHECK(budget.recent(200) == 2);
  CHECK(budget.recent(100 + kFar - 1) == 2);
  CHECK(budget.recent(100 + kFar) == 1);
  CHECK(budget.recent(200 + kFar) == 0);
  CHECK(budget.add(200 + kFar) == milliseconds(0));
  CHECK(budget.recent(200 + kFar) == 1);
}

TEST_CASE("a job that fails without coming farther waits longer each time") {
  FailureBudget budget;
  std::vector<int64_t> waits;
  for (int i = 0; i < 12; ++i) waits.push_back(budget.add(7).count());
  CHECK(waits ==
        std::vector<int64_t>{0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000});
  CHECK(budget.add(5).count() == 30000);  // from an earlier checkpoint
  for (const int64_t wait : {0, 0, 0, 250}) CHECK(budget.add(8).count() == wait);
}

TEST_CASE("failures in the journal count from the step of the job") {
  const FailureBudget budget(3, 1000);
  CHECK(budget.recent(1000) == 3);
  CHECK(budget.recent(1000 + kFar) == 0);
}

TEST_CASE("failures that the journal tells of were as far as the job was") {
  const auto waits = [](uint64_t step) {
    FailureBudget budget(3, 1000);
    std::vector<int64_t> waits;
    for (int i = 0; i < 3; ++i) waits.push_back(budget.add(step).count());
    return waits;
  };
  CHECK(waits(1000) == std::vector<int64_t>{0, 0, 250});  // each without progress
  CHECK(waits(1001) == std::vector<int64_t>{0, 0, 0});    // the first made progress
}

TEST_CASE("a job that fails where it failed before lets others go first") {
  TableDriver driver({.other_side = {}});
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 10);
  const auto assembly = [&] { return driver.table->find(id)->condition.assembly; };
  for (uint64_t failures = 1; failures <= 4; ++failures) {
    REQUIRE(assembly() == failures);
    driver.start_all(id);
    driver.send(RunnerExited{id, failures, {"w1", 1}, cat("exited with status ", failures)});
  }
  CHECK(assembly() == 4);
  CHECK_THAT(driver.reason(id), Catch::Contains("; waits a while"));
  const std::string other = driver.submit("b", 1);
  CHECK(driver.holder("w1") == other);
  driver.start_all(other);
  driver.send(JobFinished{other, 1, "x"});
  driver.exit_all(other);
  driver.tick(milliseconds(249));
  CHECK(assembly() == 4);
  driver.tick(milliseconds(1));
  CHECK(assembly() == 5);
}

}  // namespace
}  // namespace leat
