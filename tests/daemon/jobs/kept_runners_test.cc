// Tests the runners of a job that outlive their assembly or their master: which are kept, and which
// are released.
#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

// A job on three workers, of which w2 has task 1. Tests may add workers.
struct ThreeOfThem {
  explicit ThreeOfThem(const JobTableLimits& limits = {.other_side = {}}) : driver(limits) {
    for (const char* worker : {"w1", "w2", "w3"}) driver.join(worker);
    id = driver.submit("a", 3);
    driver.start_all(id);
    driver.done();
  }
  void exits(const std::string& worker, uint64_t assembly = 1) {
    driver.send(RunnerExited{id, assembly, {worker, 1}, "was killed by signal 9"});
  }
  void started(const std::string& worker, uint64_t assembly, uint64_t incarnation = 1) {
    driver.send(RunnerStarted{id, assembly, {worker, incarnation}});
  }
  uint32_t restarts() const { return driver.table->find(id)->condition.restarts; }

  TableDriver driver;
  std::string id;
};

TEST_CASE("a job whose worker is lost goes on with another and those that are left") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  driver.join("w0");
  driver.lose("w2");
  CHECK(driver.reason(scene.id) == "worker 'w2' was lost: its connection closed");
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w0 w3*\n");
  const auto view = driver.table->find(scene.id);
  CHECK(view->condition.restarts == 1);
  CHECK(view->condition.assembly == 2);
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  CHECK(driver.done() == "run a-0000 2 w1 w0 w3\n");
}

TEST_CASE("a job whose runner dies gets another on the same worker, in its place") {
  ThreeOfThem scene;
  scene.driver.join("w0");
  scene.exits("w2");
  CHECK(scene.driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2 w3*\n");
}

TEST_CASE("the runners that are left wait for other workers, and first for lost names") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  driver.lose("w1");
  driver.lose("w3");
  CHECK(driver.done() == "end a-0000 1\n");
  const std::string cause = "worker 'w1' was lost: its connection closed";
  CHECK(driver.reason(scene.id) == cause + "; waits for 2 workers more, 1 keeps the job in memory");
  const std::string later = driver.submit("later", 1);
  driver.join("w0");
  CHECK(driver.state(later) == "STARTING");  // w0 alone is not enough for the first
  driver.join("w5");
  CHECK(driver.reason(scene.id) ==
        cause +
            "; waits for 2 workers more, 1 keeps the job in memory, 1 free; 'later-0001' has 1");
  driver.done();
  driver.join("w3", 2);
  CHECK(driver.done() == "start a-0000 2 w5 w2* w3\n");
  CHECK(scene.restarts() == 1);
}

TEST_CASE("the runners that are left stop after a while, and the job waits like any other") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  driver.lose("w2");
  driver.done();
  driver.tick(milliseconds(59999));
  CHECK(driver.done() == "");
  driver.tick(milliseconds(1));
  CHECK(driver.done() == "stop a-0000 1 w1 w3\n");
  driver.exit_all(scene.id);
  CHECK(driver.table->leases().free() == 2);
  CHECK(driver.reason(scene.id) ==
        "worker 'w2' was lost: its connection closed; waits for 3 workers, 2 there");
  driver.join("w2", 2);
  CHECK(driver.done() == "start a-0000 2 w1 w2 w3\n");
  CHECK(scene.restarts() == 1);
}

TEST_CASE("of those that are left a worker that drains is not kept") {
  ThreeOfThem scene;
  scene.driver.send(WorkerDraining{{"w3", 1}, true});
  scene.driver.join("w4");
  scene.driver.join("w5");
  scene.exits("w2");
  CHECK(scene.driver.done() ==
        "save and yield a-0000 1\nend a-0000 1\nstop a-0000 1 w3\nstart a-0000 2 w1* w2 w4\n");
}

TEST_CASE("a worker that is stuck is not kept, and the job does not wait for its end") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  driver.join("w4");
  driver.send(WorkerStuck{{"w1", 1}, "no progress for 10 s"});
  CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w1\nstart a-0000 2 w4 w2* w3*\n");
  CHECK(driver.holder("w1") == scene.id);
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  SECTION("it ends") {
    scene.exits("w1");
    CHECK(driver.holder("w1") == "");
  }
  SECTION("it does not") {
    driver.tick(milliseconds(5000));  // it is killed at once
    CHECK(driver.done() == "run a-0000 2 w4 w2 w3\nexpel w1\n");
    driver.lose("w1");
  }
  CHECK(driver.state(scene.id) == "RUNNING");
}

TEST_CASE("a worker whose files do not answer goes, and its job names them") {
  ThreeOfThem scene{JobTableLimits()};
  TableDriver& driver = scene.driver;
  driver.join("w4");
  const std::string how = "'/data/x': expected its file system to answer within 10 s";
  SECTION("the run says so, too") {
    driver.send(InputStarved{scene.id, 1, {"w1", 1}, how, milliseconds(10000)});
    driver.send(JobBroke{scene.id, 1, unavailable(how + "; while opening the data of 'input'")});
    CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w1\nstart a-0000 2 w4 w2* w3*\n");
    CHECK(driver.reason(scene.id).find("'input'") != std::string::npos);
  }
  SECTION("the run does not") {
    driver.send(InputStarved{scene.id, 1, {"w1", 1}, how, milliseconds(10000)});
    driver.tick(milliseconds(100));
    CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w1\nstart a-0000 2 w4 w2* w3*\n");
  }
  CHECK(driver.reason(scene.id).starts_with("worker 'w1' gets no input: " + how));
  const auto view = driver.table->find(scene.id);
  REQUIRE(view->history.last.size() == 1);
  CHECK(view->history.last[0].culprit == "w1");
  CHECK(view->history.last[0].detected_after == 10000);
  CHECK(scene.restarts() == 1);
}

TEST_CASE("one whose files do not answer either goes with the first, also when it says so later") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  const std::string how = "'/data/x': no answer";
  driver.send(InputStarved{scene.id, 1, {"w1", 1}, how});
  driver.send(JobBroke{scene.id, 1, unavailable(how)});
  CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w1\n");
  driver.send(InputStarved{scene.id, 1, {"w3", 1}, how});
  CHECK(driver.done() == "stop a-0000 1 w3\n");
  driver.send(InputStarved{scene.id, 7, {"w2", 1}, how});  // of an assembly that does not exist
  CHECK(driver.done() == "");
}

TEST_CASE("a job of one worker whose files do not answer goes to another, if there is one") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  const auto starve = [&](uint64_t assembly, const std::string& worker) {
    driver.start_all(id);
    driver.done();
    driver.send(InputStarved{id, assembly, {worker, 1}, "'/data/x': no answer"});
    driver.send(JobBroke{id, assembly, unavailable("'/data/x': no answer")});
    driver.send(RunnerExited{id, assembly, {worker, 1}, "was killed by signal 9"});
    return driver.done();
  };
  CHECK(starve(1, "w1") == "end a-0000 1\nstop a-0000 1 w1\nstart a-0000 2 w1\n");
  driver.join("w2");
  CHECK(starve(2, "w1") == "end a-0000 2\nstop a-0000 2 w1\nstart a-0000 3 w2\n");
}

TEST_CASE("a link between two that is lost costs none of them, a step that hangs costs all") {
  ThreeOfThem scene;
  SECTION("a link") {
    scene.driver.send(JobBroke{scene.id, 1, unavailable("w1 lost its connection to w2")});
    CHECK(scene.driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2* w3*\n");
  }
  SECTION("a step") {
    scene.driver.send(JobBroke{scene.id, 1, deadline_exceeded("step 6 did not finish")});
    CHECK(scene.driver.done() == "end a-0000 1\nstop a-0000 1 w1 w2 w3\n");
    scene.driver.exit_all(scene.id);
    CHECK(scene.driver.done() == "start a-0000 2 w1 w2 w3\n");
  }
  CHECK(scene.restarts() == 1);
}

TEST_CASE("the loss of a kept runner on its way is none of the job's restarts") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  scene.exits("w2");
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2 w3*\n");
  scene.started("w1", 2);
  SECTION("news of it with the assembly before") { scene.exits("w3", 1); }
  SECTION("news of it with the new one") { scene.exits("w3", 2); }
  CHECK(driver.done() == "");  // w2 is still moving
  scene.started("w2", 2);
  CHECK(driver.done() == "start a-0000 3 w1* w2* w3\n");
  CHECK(scene.restarts() == 1);
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  driver.done();
  scene.exits("w1", 2);  // late news: it has arrived since
  CHECK(driver.state(scene.id) == "RUNNING");
  scene.exits("w1", 3);
  CHECK(driver.done() == "end a-0000 3\nstart a-0000 4 w1 w2* w3*\n");
  CHECK(scene.restarts() == 2);
}

TEST_CASE("a kept runner that does not come along in time is stopped, the others are kept") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  scene.exits("w2");
  scene.started("w1", 2);
  scene.started("w2", 2);
  driver.done();
  driver.join("w4");
  driver.tick(milliseconds(30000));
  CHECK(driver.reason(scene.id) == "the runner on 'w3' did not start in time");
  CHECK(driver.done() == "stop a-0000 2 w3\nstart a-0000 3 w1* w2* w4\n");
  CHECK(scene.restarts() == 1);
}

TEST_CASE("an assembly that cannot be written leaves those that are kept as they were") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  driver.lose("w2");
  driver.write_status = resource_exhausted("disk full");
  driver.join("w2", 2);
  CHECK(driver.table->leases().free() == 1);
  CHECK(driver.holder("w1") == scene.id);
  driver.done();
  driver.write_status = Status();
  driver.tick(milliseconds(1000));
  CHECK(driver.done() == "start a-0000 2 w1* w2 w3*\n");
}

TEST_CASE("a job that is cancelled stops those that were kept") {
  ThreeOfThem scene;
  scene.driver.lose("w2");
  scene.driver.done();
  SECTION("while they wait") {}
  SECTION("while the next assembly is written") {
    scene.driver.hold_writes = true;
    scene.driver.join("w2", 2);
  }
  SECTION("on their way") {
    scene.driver.join("w2", 2);
    CHECK(scene.driver.done() == "start a-0000 2 w1* w2 w3*\n");
  }
  scene.driver.send(CancelAsked{9, scene.id, ""});
  scene.driver.release_writes();
  scene.driver.release_writes();
  const std::string done = scene.driver.done();
  CHECK(done.starts_with("stop a-0000 "));
  CHECK(done.find(" w1") != std::string::npos);
  CHECK(done.find(" w3") != std::string::npos);
  CHECK(scene.driver.state(scene.id) == "CANCELLING");
  scene.driver.exit_all(scene.id);
  CHECK(scene.driver.state(scene.id) == "CANCELLED");
}

TEST_CASE("a restarted master takes up the runners that have gone on meanwhile") {
  ThreeOfThem scene;
  TableDriver& driver = scene.driver;
  driver.restart();
  const auto joins = [&](const std::string& worker, uint32_t task, uint64_t assembly = 1) {
    driver.send(WorkerJoined{{worker, 1}, {{scene.id, assembly, task}}});
  };
  joins("w1", 0);
  joins("w2", 1);
  scene.started("w1", 1);
  scene.started("w2", 1);
  const std::string queued = driver.submit("queued", 1);
  CHECK(driver.state(queued) == "QUEUED");
  SECTION("all of them") {
    joins("w3", 2);
    CHECK(driver.done() == "");
    scene.started("w3", 1);
    CHECK(driver.done() == "start a-0000 2 w1* w2* w3*\n");
  }
  SECTION("a worker that comes back without its runner gets another") {
    driver.join("w3");
    CHECK(driver.done() == "start a-0000 2 w1* w2* w3\n");
  }
  SECTION("one that does not come is not awaited for long") {
    driver.join("w4");
    driver.tick(milliseconds(4999));
    CHECK(driver.done() == "");
    driver.tick(milliseconds(1));
    CHECK(driver.done() == "start a-0000 2 w1* w2* w4\n");
  }
  SECTION("one of another assembly, or another's task, ends") {
    joins("w3", 2, 7);
    CHECK(driver.done() == "stop a-0000 7 w3\n");
    CHECK(driver.holder("w3") == scene.id);  // it stays leased until its runner ends
    SECTION("when it is asked to") {
      scene.exits("w3", 7);
      CHECK(driver.done() == "start a-0000 2 w1* w2* w3\n");
    }
    SECTION("or with its worker") {
      driver.join("w4");
      CHECK(driver.done() == "start a-0000 2 w1* w2* w4\n");
      driver.tick(milliseconds(6500));
      CHECK(driver.done() == "expel w3\n");
      driver.lose("w3");
    }
  }
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  CHECK(scene.restarts() == 0);
}

}  // namespace
}  // namespace leat
