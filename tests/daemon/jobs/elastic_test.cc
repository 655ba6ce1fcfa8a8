// Tests jobs that change their number of workers, and workers that jobs must leave.
#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGrowAfter{3000};

struct Scene {
  explicit Scene(std::initializer_list<const char*> workers, uint32_t most, uint32_t least = 0,
                 uint32_t max_restarts = 3) {
    for (const char* worker : workers) driver.join(worker);
    id = driver.submit("a", most, max_restarts, least);
  }
  void start() {
    driver.start_all(id);
    driver.done();
  }
  void yields(uint64_t assembly, uint64_t step, bool saved = false) {
    driver.send(RunYielded{id, assembly, step, saved});
  }
  void drain(const std::string& worker, bool on = true) {
    driver.send(WorkerDraining{{worker, 1}, on});
  }
  void steps(uint64_t assembly, uint64_t step, uint64_t first, uint64_t of = 0) {
    driver.send(ProgressMade{id, assembly, {.step = step, .steps = of, .first_step = first}});
  }
  JobView view() const { return *driver.table->find(id); }

  TableDriver driver;
  std::string id;
};

TEST_CASE(
    "an elastic job starts with as many workers as are free, and not with fewer than it needs") {
  Scene scene({"w1"}, 4, 2);
  TableDriver& driver = scene.driver;
  CHECK(driver.state(scene.id) == "QUEUED");
  CHECK(driver.reason(scene.id) == "waits for 2 workers, 1 there");
  driver.join("w2");
  CHECK(driver.done() == "start a-0000 1 w1 w2\n");
  CHECK(scene.view().num_workers == 4);
  CHECK(scene.view().min_workers == 2);

  Scene other({"w1", "w2", "w3", "w4", "w5"}, 4, 2);
  CHECK(other.driver.done() == "start a-0000 1 w1 w2 w3 w4\n");
}

TEST_CASE("an elastic job that loses workers goes on at once with those that are left") {
  Scene scene({"w1", "w2", "w3", "w4"}, 4, 2);
  TableDriver& driver = scene.driver;
  scene.start();
  driver.lose("w1");
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w4* w2* w3*\n");
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  CHECK(scene.view().condition.workers == std::vector<std::string>{"w4", "w2", "w3"});
  driver.done();
  driver.lose("w2");
  CHECK(driver.done() == "end a-0000 2\nstart a-0000 3 w4* w3*\n");
  driver.start_all(scene.id);
  driver.done();
  driver.lose("w3");
  CHECK(driver.done() == "end a-0000 3\n");
  CHECK(driver.reason(scene.id) ==
        "worker 'w3' was lost: its connection closed; waits for 1 worker more, 1 keeps the job in "
        "memory");
  driver.join("w5");
  CHECK(driver.done() == "start a-0000 4 w4* w5\n");
  CHECK(scene.view().condition.restarts == 3);
}

TEST_CASE("an elastic job takes in workers at a fence, which is none of its restarts") {
  Scene scene({"w1", "w2"}, 4, 1);
  TableDriver& driver = scene.driver;
  scene.start();
  driver.join("w3");
  driver.tick(kGrowAfter);
  CHECK(driver.done() == "");  // it has not done a step yet
  scene.steps(1, 7, 0);
  driver.tick(milliseconds(100));
  CHECK(driver.done() == "yield a-0000 1\n");
  driver.join("w4");
  driver.tick(milliseconds(100));
  CHECK(driver.done() == "");
  scene.yields(1, 9);
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2* w3 w4\n");
  CHECK(driver.reason(scene.id) == "takes in 1 worker: it had 2 of 4");
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  scene.steps(2, 10, 9);
  const JobView view = scene.view();
  CHECK(view.condition.restarts == 0);
  REQUIRE(view.history.last.size() == 1);
  CHECK(view.history.last[0].stopped_at == 9);
  CHECK(view.history.last[0].recomputed() == 0);
  CHECK(view.history.last[0].cause == "takes in 1 worker: it had 2 of 4");
}

TEST_CASE("an elastic job does not grow too soon, nor beside others that wait, nor at its end") {
  Scene scene({"w1", "w2"}, 3, 2);
  TableDriver& driver = scene.driver;
  scene.start();
  SECTION("too soon") {
    scene.steps(1, 7, 0);
    driver.join("w3");
    driver.tick(kGrowAfter - milliseconds(1));
    CHECK(driver.done() == "");
    driver.tick(milliseconds(1));
    CHECK(driver.done() == "yield a-0000 1\n");
  }
  SECTION("another job waits for the worker and one more") {
    const std::string next = driver.submit("b", 2);
    scene.steps(1, 7, 0);
    driver.join("w3");
    driver.tick(kGrowAfter);
    CHECK(driver.done() == "");
    CHECK(driver.state(next) == "QUEUED");
  }
  SECTION("it is about to end") {
    driver.join("w3");
    scene.steps(1, 10, 0, 100);
    driver.advance(kGrowAfter);
    scene.steps(1, 40, 0, 100);
    scene.steps(1, 90, 0, 100);
    driver.tick({});
    CHECK(driver.done() == "");
  }
  SECTION("a job that is not elastic never") {
    driver.join("w3");
    driver.join("w4");
    const std::string fixed = driver.submit("b", 2);
    driver.start_all(fixed);
    driver.join("w5");
    driver.join("w6");
    driver.done();
    driver.send(ProgressMade{fixed, 1, {.step = 5}});
    driver.tick(kGrowAfter);
    CHECK(driver.done() == "");
  }
}

TEST_CASE("a job leaves a worker that drains at a fence, and goes on with another") {
  Scene scene({"w1", "w2", "w3"}, 2);
  TableDriver& driver = scene.driver;
  scene.start();
  scene.drain("w2");
  CHECK(driver.done() == "yield a-0000 1\n");
  scene.drain("w2");
  CHECK(driver.done() == "");
  scene.steps(1, 41, 0);
  scene.yields(1, 42);
  CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w2\nstart a-0000 2 w1* w3\n");
  CHECK(driver.reason(scene.id) == "worker 'w2' is draining");
  CHECK(driver.holder("w2") == scene.id);
  driver.send(RunnerExited{scene.id, 1, {"w2", 1}, "exited with status 0"});
  CHECK(driver.holder("w2") == "");
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  scene.steps(2, 43, 42);
  const JobView view = scene.view();
  CHECK(view.condition.restarts == 0);
  REQUIRE(view.history.last.size() == 1);
  CHECK(view.history.last[0].culprit == "w2");
  CHECK(view.history.last[0].cause == "worker 'w2' is draining");
  CHECK(view.history.last[0].recomputed() == 0);
}

TEST_CASE("variables that no other worker keeps are saved before a worker drains") {
  SECTION("the only worker") {
    Scene scene({"w1", "w2"}, 1);
    scene.start();
    scene.drain("w1");
    CHECK(scene.driver.done() == "save and yield a-0000 1\n");
    scene.yields(1, 42, true);
    CHECK(scene.driver.done() == "end a-0000 1\nstop a-0000 1 w1\nstart a-0000 2 w2\n");
  }
  SECTION("no worker is there in its place") {
    Scene scene({"w1", "w2"}, 2);
    scene.start();
    scene.drain("w2");
    CHECK(scene.driver.done() == "save and yield a-0000 1\n");
    scene.yields(1, 42, true);
    CHECK(scene.driver.done() == "end a-0000 1\nstop a-0000 1 w2\n");
    CHECK(scene.driver.reason(scene.id) ==
          "worker 'w2' is draining; waits for 1 worker more, 1 keeps the job in memory; 'w2' "
          "is drained");
    SECTION("another comes") {
      scene.driver.join("w3");
      CHECK(scene.driver.done() == "start a-0000 2 w1* w3\n");
    }
    SECTION("it does not drain any more") {
      scene.drain("w2", false);
      CHECK(scene.driver.done() == "");  // its runner must end first
      scene.driver.send(RunnerExited{scene.id, 1, {"w2", 1}, "exited with status 0"});
      CHECK(scene.driver.done() == "start a-0000 2 w1* w2\n");
    }
  }
  SECTION("an elastic job needs no other worker") {
    Scene scene({"w1", "w2"}, 2, 1);
    scene.start();
    scene.steps(1, 41, 0);
    scene.drain("w1");
    CHECK(scene.driver.done() == "yield a-0000 1\n");
    scene.yields(1, 42);
    CHECK(scene.driver.done() == "end a-0000 1\nstop a-0000 1 w1\nstart a-0000 2 w2*\n");
  }
  SECTION("the free worker lacks the data set") {
    Scene scene({"w3"}, 1);  // it runs on w3
    TableDriver& driver = scene.driver;
    driver.send(WorkerJoined{{"w1", 1}, {}, {"digits"}});
    driver.send(WorkerJoined{{"w2", 1}, {}, {"digits"}});
    Submission submission = make_submission("r-b", "b", 2);
    submission.dataset = "digits";
    driver.send(SubmitAsked{7, submission});
    const std::string id = driver.answers.at(7)->id;
    driver.send(CancelAsked{8, scene.id, ""});
    driver.exit_all(scene.id);
    driver.start_all(id);
    driver.done();
    scene.drain("w1");  // w3 is free
    CHECK(driver.done() == cat("save and yield ", id, " 1\n"));
  }
  SECTION("first one of them, then the other") {
    Scene scene({"w1", "w2"}, 2, 1);
    scene.start();
    scene.drain("w1");
    CHECK(scene.driver.done() == "yield a-0000 1\n");
    scene.drain("w2");
    CHECK(scene.driver.done() == "save and yield a-0000 1\n");
  }
}

TEST_CASE("all workers of a job drain one after the other, and nothing is lost") {
  Scene scene({"w1", "w2", "w3", "w4"}, 2);
  TableDriver& driver = scene.driver;
  scene.start();
  scene.steps(1, 41, 0);
  scene.drain("w1");
  CHECK(driver.done() == "yield a-0000 1\n");
  SECTION("the second is asked to save, too late") {
    scene.drain("w2");
    CHECK(driver.done() == "save and yield a-0000 1\n");
    scene.yields(1, 42);
    CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2*\n");
    driver.start_all(scene.id);
    CHECK(driver.done() == "run a-0000 2 w1 w2\nsave and yield a-0000 2\n");
    scene.yields(2, 42, true);
    CHECK(driver.done() == "end a-0000 2\nstop a-0000 2 w1 w2\nstart a-0000 3 w3 w4\n");
  }
  SECTION("the second holds all that is left while its assembly is put together") {
    scene.yields(1, 42);
    CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w1\nstart a-0000 2 w3 w2*\n");
    scene.drain("w2");
    CHECK(driver.done() == "");
    driver.start_all(scene.id);
    CHECK(driver.done() == "run a-0000 2 w3 w2\nyield a-0000 2\n");
    scene.yields(2, 42);
    CHECK(driver.done() == "end a-0000 2\nstop a-0000 2 w2\nstart a-0000 3 w3* w4\n");
  }
  CHECK(scene.view().condition.restarts == 0);
}

TEST_CASE("the only runner that holds a job waits for others, though its worker drains") {
  Scene scene({"w1", "w2"}, 2);
  TableDriver& driver = scene.driver;
  scene.start();
  scene.steps(1, 41, 0);
  driver.lose("w2");
  driver.done();
  scene.drain("w1");
  CHECK(driver.done() == "");
  SECTION("another comes") {
    driver.join("w3");
    CHECK(driver.done() == "start a-0000 2 w1* w3\n");
  }
  SECTION("the other comes back, with nothing") {
    driver.join("w2", 2);
    CHECK(driver.done() == "start a-0000 2 w1* w2\n");
    driver.send(RunnerStarted{scene.id, 2, {"w1", 1}});
    CHECK(driver.done() == "");
    driver.send(RunnerStarted{scene.id, 2, {"w2", 2}});
    CHECK(driver.done() == "run a-0000 2 w1 w2\nsave and yield a-0000 2\n");
  }
  SECTION("no worker comes") {
    driver.tick(std::chrono::minutes(1));
    CHECK(driver.done() == "stop a-0000 1 w1\n");
  }
}

TEST_CASE("a runner that holds a part of a job waits for others, though its worker drains") {
  Scene scene({"w1", "w2", "w3"}, 3);
  TableDriver& driver = scene.driver;
  scene.start();
  const bool in_parts = GENERATE(true, false);
  driver.send(ProgressMade{scene.id, 1, {.step = 41, .in_parts = in_parts}});
  driver.lose("w3");
  driver.done();
  scene.drain("w1");
  CHECK(driver.done() == (in_parts ? "" : "stop a-0000 1 w1\n"));
}

TEST_CASE("a job that is on its way to run leaves a worker that drains at once") {
  Scene scene({"w1", "w2"}, 2);
  TableDriver& driver = scene.driver;
  driver.join("w3");
  CHECK(driver.done() == "start a-0000 1 w1 w2\n");
  scene.drain("w2");
  CHECK(driver.done() == "stop a-0000 1 w2\n");  // w1 is still moving
  driver.send(RunnerStarted{scene.id, 1, {"w1", 1}});
  CHECK(driver.done() == "start a-0000 2 w1* w3\n");
  CHECK(scene.view().condition.restarts == 0);
}

TEST_CASE("a runner that waits for others, and holds nothing, stops when its worker drains") {
  Scene scene({"w1", "w2"}, 2);
  scene.start();
  scene.driver.lose("w2");
  scene.driver.done();
  scene.drain("w1");
  CHECK(scene.driver.done() == "stop a-0000 1 w1\n");
}

TEST_CASE("a job that ends, fails or is cancelled on its way to a fence does so") {
  Scene scene({"w1", "w2", "w3"}, 2);
  TableDriver& driver = scene.driver;
  scene.start();
  scene.drain("w2");
  driver.done();
  SECTION("it ends") {
    driver.send(JobFinished{scene.id, 1, "weights"});
    CHECK(driver.state(scene.id) == "SUCCEEDED");
  }
  SECTION("the worker is lost before") {
    driver.lose("w2");
    CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w3\n");
    CHECK(scene.view().condition.restarts == 1);
    scene.yields(1, 42);  // too late
    CHECK(driver.done() == "");
  }
  SECTION("it is cancelled") {
    driver.send(CancelAsked{9, scene.id, ""});
    CHECK(driver.state(scene.id) == "CANCELLING");
    scene.yields(1, 42);
    CHECK(driver.state(scene.id) == "CANCELLING");
  }
}

TEST_CASE("a job that may not restart stays where it is") {
  Scene scene({"w1", "w2"}, 1, 0, 0);
  scene.start();
  scene.drain("w1");
  CHECK(scene.driver.done() == "");
  CHECK(scene.driver.state(scene.id) == "RUNNING");
}

TEST_CASE("an elastic job is elastic after its master has started again") {
  Scene scene({"w1", "w2", "w3"}, 3, 2);
  TableDriver& driver = scene.driver;
  scene.start();
  driver.lose("w1");
  driver.start_all(scene.id);
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w3* w2*\nrun a-0000 2 w3 w2\n");
  driver.restart();
  CHECK(scene.view().min_workers == 2);
  driver.send(WorkerJoined{{"w2", 1}, {{scene.id, 2, 1}}});
  driver.send(WorkerJoined{{"w3", 1}, {{scene.id, 2, 0}}});
  driver.send(RunnerStarted{scene.id, 2, {"w2", 1}});
  driver.send(RunnerStarted{scene.id, 2, {"w3", 1}});
  CHECK(driver.done() == "start a-0000 3 w3* w2*\n");
}

// A run on three workers, which needs the first and one of the others.
struct Spared : Scene {
  Spared() : Scene({"w1", "w2", "w3"}, 3) {
    start();
    spares(1);
  }
  void spares(uint64_t assembly) {
    driver.send(ProgressMade{id, assembly, {.step = 9, .first_step = 5, .spared_from = 1}});
  }
  void exits(const std::string& worker, uint64_t assembly = 1) {
    driver.send(RunnerExited{id, assembly, {worker, 1}, "was killed by signal 9"});
  }
};

TEST_CASE("a run that spares a worker goes on without it, until there is another") {
  Spared scene;
  TableDriver& driver = scene.driver;
  const std::string lost = "worker 'w2' was lost: its connection closed";
  driver.lose("w2");
  driver.tick(kGrowAfter);
  CHECK(driver.done() == "");
  CHECK(driver.state(scene.id) == "RUNNING");
  CHECK(driver.reason(scene.id) == "goes on though " + lost);
  driver.join("w2", 2);
  driver.tick(milliseconds(1));
  CHECK(driver.done() == "save and yield a-0000 1\n");
  scene.yields(1, 12);
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2 w3*\n");
  const JobView view = scene.view();
  CHECK(view.condition.restarts == 0);
  REQUIRE(view.history.last.size() == 1);
  CHECK(view.history.last[0].culprit == "w2");
  CHECK(view.history.last[0].cause == lost + "; takes in 1 worker: it had 2 of 3");
  driver.start_all(scene.id);
  CHECK(driver.state(scene.id) == "RUNNING");
  CHECK(driver.reason(scene.id) == "");
  driver.done();
  scene.exits("w3", 2);  // the next run has not reported yet that it spares any
  CHECK(driver.done() == "end a-0000 2\nstart a-0000 3 w1* w2* w3\n");
}

TEST_CASE("a runner that is spared gives its worker back, and comes back to it at a fence") {
  Spared scene;
  TableDriver& driver = scene.driver;
  scene.exits("w3");
  CHECK(driver.done() == "");
  CHECK(driver.reason(scene.id) == "goes on though the runner on 'w3' was killed by signal 9");
  SECTION("if no other job gets it") {
    driver.tick(kGrowAfter);
    CHECK(driver.done() == "save and yield a-0000 1\n");
  }
  SECTION("or the job waits") {
    const std::string other = driver.submit("other", 1);
    CHECK(driver.state(other) == "STARTING");
    driver.tick(kGrowAfter);
    CHECK(driver.done() == "start other-0001 1 w3\n");
    // The run cannot continue without them at its current step.
    scene.yields(1, 12);
    CHECK(driver.done() == "end a-0000 1\n");
    CHECK_THAT(
        driver.reason(scene.id),
        Catch::EndsWith(
            "waits for 1 worker more, 2 keep the job in memory, 0 free; 'other-0001' has 1"));
  }
  CHECK(scene.view().condition.restarts == 0);
}

TEST_CASE("a run that has spared too many fails, and names the lost workers") {
  Spared scene;
  TableDriver& driver = scene.driver;
  scene.exits("w2");
  scene.exits("w3");
  CHECK(driver.done() == "");
  driver.send(JobBroke{scene.id, 1, unavailable("too few replicas are left")});
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2 w3\n");
  CHECK(scene.view().condition.restarts == 1);
  CHECK(scene.view().history.last[0].culprit == "w3");
}

TEST_CASE("a worker that its run does not spare is a loss, as are all before the run says so") {
  Spared scene;
  scene.exits("w1");
  CHECK(scene.driver.done() == "end a-0000 1\nstart a-0000 2 w1 w2* w3*\n");
  Scene early({"w1", "w2", "w3"}, 3);
  early.start();
  early.driver.lose("w3");
  CHECK(early.driver.done() == "end a-0000 1\n");
}

}  // namespace
}  // namespace leat
