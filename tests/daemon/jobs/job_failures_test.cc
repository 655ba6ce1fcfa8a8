// The failures of a running job, as the table of jobs takes them: what they count, and which cause
// is told.
#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

TEST_CASE("a job fails when its restarts are used up") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 1);
  driver.start_all(id);
  driver.send(ProgressMade{id, 1, {.step = 5}});
  driver.send(RunnerExited{id, 1, {"w1", 1}, "was killed by signal 9"});
  CHECK(driver.state(id) == "RECOVERING");
  driver.start_all(id);
  driver.send(ProgressMade{id, 2, {.step = 6}});
  driver.send(RunnerExited{id, 2, {"w1", 1}, "was killed by signal 9"});
  CHECK(driver.state(id) == "FAILED");
  CHECK(driver.reason(id) ==
        "the runner on 'w1' was killed by signal 9, after step 6; after 1 restart");
}

TEST_CASE("a crash that repeats itself at the same step fails the job") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 10);
  for (const uint64_t assembly : {1, 2, 3}) {
    CHECK_FALSE(driver.state(id) == "FAILED");
    driver.start_all(id);
    driver.send(ProgressMade{id, assembly, {.step = 57}});
    driver.send(RunnerExited{id, assembly, {"w1", 1}, {"was killed by signal 11", true}});
  }
  CHECK(driver.state(id) == "FAILED");
  CHECK(driver.reason(id) == "three times at step 57: the runner on 'w1' was killed by signal 11");
}

TEST_CASE("crashes at one step with others between them fail no job") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 10);
  for (uint64_t assembly = 1; assembly < 7; ++assembly) {
    driver.start_all(id);
    driver.send(ProgressMade{id, assembly, {.step = assembly % 3 == 0 ? 56u : 57u}});
    driver.send(RunnerExited{id, assembly, {"w1", 1}, {"was killed by signal 11", true}});
    driver.tick(std::chrono::seconds(40));
  }
  CHECK(driver.state(id) == "RECOVERING");
}

TEST_CASE("runners killed at one step again and again do not fail their job") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 10);
  for (const uint64_t assembly : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
    driver.start_all(id);
    driver.send(RunnerExited{id, assembly, {"w1", 1}, {"was killed by signal 9"}});
    CHECK(driver.state(id) == "RECOVERING");
    driver.tick(std::chrono::seconds(40));
  }
  driver.start_all(id);
  driver.send(RunnerExited{id, 11, {"w1", 1}, {"was killed by signal 9"}});
  CHECK(driver.state(id) == "FAILED");
  CHECK(driver.reason(id) == "the runner on 'w1' was killed by signal 9; after 10 restarts");
}

// A job on two workers, with a table that waits for both sides' reports of a failure.
struct TwoSides {
  TwoSides() : driver(JobTableLimits{}) {
    for (const char* worker : {"w1", "w2"}) driver.join(worker);
    id = driver.submit("a", 2);
    driver.start_all(id);
    driver.send(ProgressMade{id, 1, {.step = 5}});
  }
  void run_broke(const Status& status) { driver.send(JobBroke{id, 1, status}); }
  void runner_died() { driver.send(RunnerExited{id, 1, {"w1", 1}, "was killed by signal 9"}); }

  TableDriver driver;
  std::string id;
};
constexpr const char* kSeen = "w2 awaits edge 3 of w1; while running step 6";

TEST_CASE("a job whose runner dies says how, and what the run waited for") {
  TwoSides scene;
  SECTION("the death is heard of first") {
    scene.runner_died();
    CHECK(scene.driver.state(scene.id) == "RUNNING");
    scene.run_broke(unavailable(kSeen));
  }
  SECTION("the run fails first") {
    scene.run_broke(unavailable(kSeen));
    CHECK(scene.driver.state(scene.id) == "RUNNING");
    scene.runner_died();
  }
  CHECK(scene.driver.state(scene.id) == "RECOVERING");
  CHECK(scene.driver.reason(scene.id) == cat("the runner on 'w1' was killed by signal 9; ", kSeen));
}

TEST_CASE("the run's own words stand for all if they say how a runner died") {
  TwoSides scene;
  scene.runner_died();
  scene.run_broke(unavailable("w1 was lost: it was killed by signal 9; w2 awaits edge 3, step 6"));
  CHECK(scene.driver.reason(scene.id) ==
        "w1 was lost: it was killed by signal 9; w2 awaits edge 3, step 6");
}

TEST_CASE("a job whose runner ends because of its GPU names what the GPU's driver said") {
  TwoSides scene;
  const std::string gpu = "gpu:0: computing: cudaEventRecord: cudaErrorUnknown: unknown error";
  const auto device_failed = [&](const std::string& worker, uint64_t assembly = 1) {
    scene.driver.send(DeviceFailed{scene.id, assembly, {worker, 1}, gpu});
  };
  const auto exited = [&] {
    scene.driver.send(RunnerExited{scene.id, 1, {"w1", 1}, "exited with status 6"});
  };
  std::string reason;
  SECTION("the run names only what it waited for") {
    device_failed("w1");
    CHECK(scene.driver.state(scene.id) == "RUNNING");  // the end of the process comes
    exited();
    scene.run_broke(unavailable(kSeen));
    reason = cat("the runner on 'w1' exited with status 6: ", gpu, "; ", kSeen);
  }
  SECTION("the run says nothing") {
    device_failed("w1");
    exited();
    scene.driver.tick(milliseconds(110));
    reason = cat("the runner on 'w1' exited with status 6: ", gpu, ", after step 5");
  }
  SECTION("the run names the end alone") {
    device_failed("w1");
    scene.run_broke(unavailable("step 6: task 0 on w1: its process exited with status 6"));
    exited();
    reason = cat("step 6: task 0 on w1: its process exited with status 6: ", gpu);
  }
  SECTION("the run has the GPU's words already") {
    device_failed("w1");
    scene.run_broke(unavailable(cat("step 6 on w1: ", gpu)));
    exited();
    reason = cat("the runner on 'w1' exited with status 6; step 6 on w1: ", gpu);
  }
  SECTION("the GPU of another worker failed, too, and was told of before") {
    device_failed("w2");
    device_failed("w1");
    exited();
    scene.run_broke(unavailable(kSeen));
    reason = cat("the runner on 'w1' exited with status 6: ", gpu, "; ", kSeen);
  }
  SECTION("a GPU of another worker, or of an assembly before, is not the cause") {
    device_failed("w2");
    device_failed("w1", 7);
    exited();
    scene.run_broke(unavailable(kSeen));
    reason = cat("the runner on 'w1' exited with status 6; ", kSeen);
  }
  CHECK(scene.driver.state(scene.id) == "RECOVERING");
  CHECK(scene.driver.reason(scene.id) == reason);
  const auto lost = scene.driver.table->find(scene.id)->history.last;
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].cause == reason);
  CHECK(lost[0].culprit == "w1");
}

TEST_CASE("a job waits for the other side of a failure, but not for long") {
  TwoSides scene;
  std::string reason;
  int waits = 250;
  SECTION("the run says nothing") {
    waits = 100;  // enough for the second report
    scene.runner_died();
    reason = "the runner on 'w1' was killed by signal 9, after step 5";
  }
  SECTION("the processes live") {
    scene.run_broke(unavailable(kSeen));
    reason = cat("unavailable: ", kSeen);
  }
  scene.driver.tick(std::chrono::milliseconds(waits - 10));
  CHECK(scene.driver.state(scene.id) == "RUNNING");
  scene.driver.tick(std::chrono::milliseconds(20));
  CHECK(scene.driver.state(scene.id) == "RECOVERING");
  CHECK(scene.driver.reason(scene.id) == reason);
}

TEST_CASE("an error of the run that is no loss is the cause at once, and stays") {
  TwoSides scene;
  scene.run_broke(invalid_argument("Relu 'r': expected numbers"));
  scene.runner_died();
  CHECK(scene.driver.state(scene.id) == "FAILED");
  CHECK(scene.driver.reason(scene.id) == "invalid_argument: Relu 'r': expected numbers");
}

TEST_CASE("a call that was given up is the cause only if no process of the job ends") {
  TwoSides scene;
  const Status error = GENERATE(cancelled("w1 failed: the call was given up"),
                                failed_precondition("handshake with w1: it refused: run"));
  scene.run_broke(error);
  CHECK(scene.driver.state(scene.id) == "RUNNING");
  SECTION("a runner ends") {
    scene.runner_died();
    CHECK(scene.driver.state(scene.id) == "RECOVERING");
    CHECK_THAT(scene.driver.reason(scene.id), Catch::Contains("was killed by signal 9"));
    CHECK_THAT(scene.driver.reason(scene.id), Catch::Contains(error.message()));
  }
  SECTION("the processes live") {
    scene.driver.tick(std::chrono::milliseconds(260));
    CHECK(scene.driver.state(scene.id) == "FAILED");
    CHECK(scene.driver.reason(scene.id) == error.to_string());
  }
}

TEST_CASE("a job that can be cancelled can be so while the cause of its failure is looked for") {
  TwoSides scene;
  scene.runner_died();
  scene.driver.send(CancelAsked{9, scene.id, ""});
  CHECK(scene.driver.state(scene.id) == "CANCELLING");
}

TEST_CASE("an error that would come again fails the job at once") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.done();
  driver.send(JobBroke{id, 1, invalid_argument("labels out of range")});
  CHECK(driver.state(id) == "FAILED");
  CHECK(driver.reason(id) == "invalid_argument: labels out of range");
  CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w1\n");
  driver.exit_all(id);
  CHECK(driver.table->leases().free() == 1);
}

}  // namespace
}  // namespace leat
