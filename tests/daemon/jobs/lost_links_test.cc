// Tests which workers a job loses when links between them fail, and which keep their variables.
#include "daemon/jobs/lost_links.h"

#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

using Names = std::vector<std::string>;

TEST_CASE("of two workers that lost their link the one of the higher name goes") {
  CHECK(workers_to_leave({{"w1", "w2"}}) == Names{"w2"});
  CHECK(workers_to_leave({{"w2", "w3"}}) == Names{"w3"});
  CHECK(workers_to_leave({}) == Names{});
}

TEST_CASE("the worker that reaches the fewest peers leaves before a higher name") {
  CHECK(workers_to_leave({{"w1", "w2"}, {"w1", "w3"}}) == Names{"w1"});
  CHECK(workers_to_leave({{"w1", "w3"}, {"w2", "w3"}, {"w1", "w2"}}) == Names{"w3", "w2"});
  CHECK(workers_to_leave({{"w1", "w2"}, {"w3", "w4"}}) == Names{"w4", "w2"});
}

TEST_CASE("a link that both ends reported is judged once, by the end that saw more") {
  LostLinks links;
  const Clock::Steady now{};
  links.add("w2", "w1", LinkFault::closed, "w1 closed the connection", now);
  links.add("w1", "w2", LinkFault::damaged, "data loss", now);
  links.add("w2", "w1", LinkFault::closed, "w1 closed the connection", now);
  const auto verdict = links.judge({"w1", "w2", "w3"}, "", now);
  REQUIRE(verdict);
  CHECK(verdict->go.empty());
  CHECK(verdict->text == "the link between 'w1' and 'w2' carried damaged bytes: data loss");
  links.add("w1", "w2", LinkFault::damaged, "data loss", now);
  CHECK(links.judge({"w1", "w2"}, "data loss; while running", now)->text ==
        "the link between 'w1' and 'w2' carried damaged bytes");
  CHECK_FALSE(links.judge({"w1", "w2", "w3"}, "", now));
}

TEST_CASE("a link that is damaged for the third time in ten minutes costs one of its workers") {
  LostLinks links;
  Clock::Steady now{};
  const auto goes = [&](milliseconds later) {
    now += later;
    links.add("w1", "w2", LinkFault::damaged, "data loss", now);
    const auto verdict = links.judge({"w1", "w2"}, "", now);
    REQUIRE(verdict);
    return join(verdict->go, ",");
  };
  CHECK(goes(milliseconds(0)) == "");
  CHECK(goes(std::chrono::minutes(9)) == "");
  CHECK(goes(std::chrono::minutes(2)) == "");  // the first report is too old
  CHECK(goes(std::chrono::minutes(7)) == "w2");
}

TEST_CASE("an old report of a link does not explain why a run fails now") {
  LostLinks links;
  const Clock::Steady now{};
  links.add("w1", "w2", LinkFault::lost, "silence", now);
  CHECK_FALSE(links.judge({"w1", "w2"}, "", now + milliseconds(5001)));
  links.add("w1", "w2", LinkFault::lost, "silence", now);
  CHECK_FALSE(links.judge({"w1", "w3"}, "", now));
  links.add("w1", "w2", LinkFault::lost, "silence", now);
  links.renew();
  CHECK_FALSE(links.judge({"w1", "w2"}, "", now));
}

// A job that steps on three workers.
struct LinksScene {
  explicit LinksScene(const JobTableLimits& limits = {.other_side = {}}) : driver(limits) {
    for (const char* worker : {"w1", "w2", "w3"}) driver.join(worker);
    id = driver.submit("a", 3);
    driver.start_all(id);
    step(1, 5);
    driver.done();
  }
  void step(uint64_t assembly, uint64_t to) {
    driver.send(ProgressMade{id, assembly, {.step = to, .steps = 100, .first_step = to - 1}});
  }
  void lost(const std::string& worker, const std::string& peer, uint64_t assembly = 1,
            LinkFault fault = LinkFault::lost) {
    driver.send(
        LinkFailed{id, assembly, {worker, 1}, peer, fault, cat("link ", worker, " to ", peer)});
  }
  void broke(const Status& why, uint64_t assembly = 1) { driver.send(JobBroke{id, assembly, why}); }
  uint32_t restarts() const { return driver.table->find(id)->condition.restarts; }

  TableDriver driver;
  std::string id;
};

TEST_CASE("of two workers that lost their link one goes, the others keep the job in memory") {
  LinksScene scene;
  TableDriver& driver = scene.driver;
  driver.join("w0");
  scene.lost("w3", "w2");
  scene.lost("w2", "w3");
  CHECK(driver.done() == "");  // the run may recover by itself
  SECTION("an open link") { scene.broke(unavailable("link w3 to w2: timed out")); }
  SECTION("one that is being opened") { scene.broke(deadline_exceeded("dialling w2")); }
  CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w3\nstart a-0000 2 w1* w2* w0\n");
  CHECK(driver.reason(scene.id).starts_with("'w3' goes; the link between 'w2' and 'w3' was lost"));
  const auto view = driver.table->find(scene.id);
  REQUIRE(view->history.last.size() == 1);
  CHECK(view->history.last[0].culprit == "w3");
}

TEST_CASE("a link with damaged bytes costs no worker, and is no repeated crash of the job") {
  LinksScene scene;
  for (uint64_t assembly = 1; assembly <= 2; ++assembly) {
    scene.lost("w1", "w2", assembly, LinkFault::damaged);
    scene.broke(unavailable("data loss"), assembly);
    CHECK(scene.driver.done() ==
          cat("end a-0000 ", assembly, "\nstart a-0000 ", assembly + 1, " w1* w2* w3*\n"));
    scene.driver.start_all(scene.id);
    scene.driver.done();
  }
  scene.lost("w1", "w2", 3, LinkFault::damaged);
  scene.broke(unavailable("data loss"), 3);
  CHECK(scene.driver.done() == "end a-0000 3\nstop a-0000 3 w2\n");
}

TEST_CASE("a worker that lost its link may come back once, and then is left out for a while") {
  LinksScene scene;
  TableDriver& driver = scene.driver;
  const auto lose = [&](uint64_t assembly) {
    scene.lost("w3", "w2", assembly);
    scene.broke(unavailable("timed out"), assembly);
    driver.send(RunnerExited{scene.id, assembly, {"w3", 1}, "was stopped"});
    return driver.done();
  };
  CHECK(lose(1) == "end a-0000 1\nstop a-0000 1 w3\nstart a-0000 2 w1* w2* w3\n");
  CHECK(scene.restarts() == 1);
  driver.start_all(scene.id);
  driver.done();
  CHECK(lose(2) == "end a-0000 2\nstop a-0000 2 w3\n");
  CHECK(driver.reason(scene.id).ends_with(
      "; waits for 1 worker more, 2 keep the job in memory, and leaves 'w3' out for now"));
  driver.tick(milliseconds(499));
  CHECK(driver.done() == "");
  driver.tick(milliseconds(1));
  CHECK(driver.done() == "start a-0000 3 w1* w2* w3\n");
  driver.start_all(scene.id);
  driver.done();
  CHECK(lose(3) == "end a-0000 3\nstop a-0000 3 w3\n");
  driver.tick(milliseconds(999));
  CHECK(driver.done() == "");
  SECTION("the time is over") {
    driver.tick(milliseconds(1));
    CHECK(driver.done() == "start a-0000 4 w1* w2* w3\n");
  }
  SECTION("another comes") {
    driver.join("w4");
    CHECK(driver.done() == "start a-0000 4 w1* w2* w4\n");
  }
  CHECK(scene.restarts() == 1);  // it was stepping, and waits for the network
}

TEST_CASE("damage of a link needs no second report, the end of a connection does") {
  LinksScene scene({.other_side = milliseconds(250)});
  TableDriver& driver = scene.driver;
  SECTION("damage") {
    scene.lost("w1", "w2", 1, LinkFault::damaged);
    scene.broke(unavailable("data loss"));
    CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2* w3*\n");
  }
  SECTION("an end of a connection") {
    scene.lost("w1", "w2", 1, LinkFault::closed);
    scene.broke(unavailable("w2 closed the connection"));
    CHECK(driver.done() == "");
    driver.tick(milliseconds(250));
    CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2* w3*\n");
  }
}

TEST_CASE("a job whose workers never reached each other does not try for ever") {
  LinksScene scene;
  TableDriver& driver = scene.driver;
  const std::string never = driver.submit("b", 2, 1);
  driver.join("w4");
  driver.join("w5");
  driver.start_all(never);
  for (const uint64_t assembly : {1, 2}) {
    driver.send(LinkFailed{never, assembly, {"w4", 1}, "w5", LinkFault::lost, "no answer"});
    driver.send(JobBroke{never, assembly, deadline_exceeded("dialling w5")});
    driver.send(RunnerExited{never, assembly, {"w5", 1}, "was stopped"});
    driver.tick(milliseconds(2000));
    driver.start_all(never);
  }
  CHECK(driver.state(never) == "FAILED");
}

TEST_CASE("before a worker is blamed, the job waits for one that is silent") {
  LinksScene scene({.other_side = milliseconds(250)});
  TableDriver& driver = scene.driver;
  driver.send(WorkerSilent{{"w2", 1}, true});
  scene.lost("w3", "w2");
  scene.lost("w1", "w2");
  scene.broke(deadline_exceeded("dialling w2"));
  driver.tick(milliseconds(250));
  driver.tick(milliseconds(1500));
  CHECK(driver.done() == "");
  SECTION("it is lost") {
    driver.send(WorkerLost{{"w2", 1}, "no heartbeat for 2.5 s"});
    CHECK(driver.done() == "end a-0000 1\n");
    CHECK(driver.reason(scene.id).starts_with("worker 'w2' was lost: no heartbeat for 2.5 s; "));
    CHECK(driver.table->find(scene.id)->history.last[0].culprit == "w2");
  }
  SECTION("a runner on it is killed") {
    driver.send(RunnerExited{scene.id, 1, {"w2", 1}, "gave no sign of life for 2.5 s"});
    CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w2 w3*\n");
  }
  SECTION("it is heard of again") {
    driver.send(WorkerSilent{{"w2", 1}, false});
    driver.tick(milliseconds(100));
    CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w2\n");
  }
  SECTION("nothing more is known") {
    driver.tick(milliseconds(1249));
    CHECK(driver.done() == "");
    driver.tick(milliseconds(1));
    CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w2\n");
  }
}

TEST_CASE("a step that no worker ends in time waits for the silent one before all stop") {
  LinksScene scene;
  TableDriver& driver = scene.driver;
  driver.send(WorkerSilent{{"w2", 1}, true});
  scene.broke(deadline_exceeded("step 6 did not finish in time"));
  CHECK(driver.done() == "");
  driver.send(WorkerLost{{"w2", 1}, "no heartbeat for 2.5 s"});
  CHECK(driver.done() == "end a-0000 1\n");  // w1 and w3 are kept
  driver.join("w2", 2);
  CHECK(driver.done() == "start a-0000 2 w1* w2 w3*\n");
}

}  // namespace
}  // namespace leat
