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

TEST_CASE("a failure that is not counted makes the job wait all the same") {
  FailureBudget budget;
  for (const int64_t wait : {0, 0, 0, 250, 500}) CHECK(budget.pause(7).count() == wait);
  CHECK(budget.recent(7) == 0);
  CHECK(budget.pause(8).count() == 0);  // a step was done between
}

TEST_CASE(
    "a lasting session that crashes while it has nothing to do waits longer, and never fails") {
  TableDriver driver({.other_side = {}});
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 5);
  const auto assembly = [&] { return driver.table->find(id)->condition.assembly; };
  const auto crash = [&](uint64_t step, bool idle) {
    driver.start_all(id);
    const uint64_t now = assembly();
    driver.send(ProgressMade{id, now, {.step = step, .first_step = step, .idle = idle}});
    driver.send(RunnerExited{id, now, {"w1", 1}, {"was killed by signal 11", true}});
  };
  std::chrono::milliseconds wait{0};
  for (uint64_t crashes = 1; crashes <= 12; ++crashes) {
    INFO(crashes);
    REQUIRE(assembly() == crashes);
    crash(8, true);
    REQUIRE(driver.state(id) == "RECOVERING");
    if (crashes > 3)
      wait = crashes == 4 ? milliseconds(250) : std::min(2 * wait, milliseconds(30'000));
    if (wait.count() > 0) {
      driver.tick(wait - milliseconds(1));
      CHECK(assembly() == crashes);
      driver.tick(milliseconds(1));
    }
  }
  CHECK(wait == milliseconds(30'000));
  CHECK(driver.table->find(id)->condition.restarts == 0);
  SECTION("one that is at work fails with the third crash at one step") {
    crash(8, false);
    CHECK(driver.state(id) == "RECOVERING");
    driver.tick(milliseconds(30'000));
    crash(8, false);
    CHECK(driver.state(id) == "RECOVERING");
    driver.tick(milliseconds(30'000));
    crash(8, false);
    CHECK(driver.state(id) == "FAILED");
    CHECK_THAT(driver.reason(id), Catch::Contains("three times at step 8"));
  }
  SECTION("steps between the crashes make them different ones") {
    for (uint64_t step = 9; step < 14; ++step) crash(step, false);
    CHECK(driver.state(id) == "RECOVERING");
  }
}

TEST_CASE("a lasting session whose runners fail at every start ends, also if it was idle before") {
  TableDriver driver({.other_side = {}});
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 5);
  const auto assembly = [&] { return driver.table->find(id)->condition.assembly; };
  const auto fail = [&](const RunnerEnd& end) {
    const uint64_t failed = assembly();
    driver.send(RunnerExited{id, failed, {"w1", 1}, end});
    // The next assembly may have to wait, and its runner must not be late.
    while (driver.state(id) == "RECOVERING" && assembly() == failed) driver.tick(milliseconds(250));
  };
  const auto is_idle = [&] {
    driver.start_all(id);
    driver.send(ProgressMade{id, assembly(), {.step = 8, .first_step = 8, .idle = true}});
  };
  const RunnerEnd crash{"was killed by signal 11", true}, killed{"was killed by signal 9"};
  is_idle();
  fail(crash);
  REQUIRE(driver.state(id) == "RECOVERING");
  CHECK(driver.table->find(id)->condition.restarts == 0);
  SECTION("by the third crash") {
    for (int starts = 1; starts <= 2; ++starts) {
      fail(crash);
      CHECK(driver.state(id) == "RECOVERING");
    }
    fail(crash);
    CHECK(driver.state(id) == "FAILED");
    CHECK(driver.reason(id) == "three times at step 8: the runner on 'w1' was killed by signal 11");
  }
  SECTION("by its budget of restarts, if something else ends them") {
    for (uint32_t starts = 1; starts <= 5; ++starts) {
      fail(killed);
      REQUIRE(driver.state(id) == "RECOVERING");
      CHECK(driver.table->find(id)->condition.restarts == starts);
    }
    fail(killed);
    CHECK(driver.state(id) == "FAILED");
    CHECK(driver.reason(id) ==
          "the runner on 'w1' was killed by signal 9, after step 8; after 5 restarts");
  }
  SECTION("not if it was idle between them") {
    for (int starts = 1; starts <= 4; ++starts) {
      fail(crash);
      is_idle();
      fail(crash);
    }
    CHECK(driver.state(id) == "RECOVERING");
    CHECK(driver.table->find(id)->condition.restarts == 4);
  }
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
