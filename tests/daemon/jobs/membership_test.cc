#include "daemon/jobs/membership.h"

#include <cmath>

#include "devices/base/text.h"
#include "tests/catch.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

WorkerInfo worker_info(const std::string& name, uint64_t incarnation) {
  WorkerInfo info;
  info.worker = {name, incarnation};
  info.address = "10.0.0.2:17463";
  info.devices = {{"cpu", "cpu:0", uint64_t{8} << 30, 8, "a processor"}};
  return info;
}

// Returns one line for each event: "joined w1/1", "lost w1/1: why".
std::string text_of(const Membership::Events& events, bool tells_silence = false) {
  const auto name = [](const WorkerRef& worker) {
    return cat(worker.name, "/", worker.incarnation);
  };
  std::string text;
  for (const JobEvent& event : events) {
    if (const auto* joined = std::get_if<WorkerJoined>(&event)) {
      text += cat("joined ", name(joined->worker), "\n");
    } else if (const auto* lost = std::get_if<WorkerLost>(&event)) {
      text += cat("lost ", name(lost->worker), ": ", lost->reason, "\n");
    } else if (const auto* stuck = std::get_if<WorkerStuck>(&event)) {
      text += cat("stuck ", name(stuck->worker), ": ", stuck->reason, "\n");
    } else if (const auto* drains = std::get_if<WorkerDraining>(&event)) {
      text += cat(drains->draining ? "drains " : "drains no more ", name(drains->worker), "\n");
    } else if (const auto* silent = std::get_if<WorkerSilent>(&event)) {
      if (tells_silence)
        text += cat(silent->silent ? "silent " : "heard ", name(silent->worker), "\n");
    } else {
      text += "something else\n";
    }
  }
  return text;
}

struct Cluster {
  explicit Cluster(const MembershipLimits& limits = {}) : members(limits) {}

  std::string join(const std::string& name, uint64_t incarnation) {
    const auto events = members.join(worker_info(name, incarnation), moment_of(clock));
    return events.ok() ? text_of(*events) : events.status().to_string();
  }
  Status beat(const std::string& name, uint64_t incarnation, uint64_t progress = 0,
              bool stepping = false) {
    return members.heard({{name, incarnation}, ++sequence, progress, stepping}, moment_of(clock));
  }
  std::string tick() { return text_of(members.tick(moment_of(clock))); }
  // Passes the time in ticks of 50 ms, with heartbeats of w1 every 250 ms. Returns the events.
  std::string pass(milliseconds time, uint64_t progress = 0, bool stepping = false) {
    std::string text;
    for (milliseconds t(0); t < time; t += milliseconds(50)) {
      clock.advance(milliseconds(50));
      if (beats && (t.count() / 50) % 5 == 4) (void)beat("w1", 1, progress, stepping);
      text += tick();
    }
    return text;
  }
  WorkerView view(const std::string& name) {
    for (WorkerView& view : members.workers(moment_of(clock))) {
      if (view.info.worker.name == name) return view;
    }
    return {};
  }

  Membership members;
  ManualClock clock;
  uint64_t sequence = 0;
  bool beats = true;
};

TEST_CASE("a worker that is not heard of for half a second is silent until it is heard of again") {
  Cluster cluster;
  cluster.join("w1", 1);
  const auto later = [&](int ms) {
    cluster.clock.advance(milliseconds(ms));
    return text_of(cluster.members.tick(moment_of(cluster.clock)), true);
  };
  CHECK(later(499) == "");
  CHECK(later(1) == "silent w1/1\n");
  CHECK(later(100) == "");
  CHECK(cluster.beat("w1", 1).ok());
  CHECK(later(100) == "heard w1/1\n");
  // The worker reports a quiet runner.
  CHECK(cluster.members.heard({{"w1", 1}, 9, 0, true, false, true}, moment_of(cluster.clock)).ok());
  CHECK(later(100) == "silent w1/1\n");
}

TEST_CASE("a worker has the share of the time in which it waits for others") {
  Cluster cluster;
  cluster.join("w1", 1);
  CHECK(std::isnan(cluster.view("w1").waiting));
  uint64_t sequence = 0;
  const auto beat = [&](int count, bool stepping, bool waits) {
    for (int i = 0; i < count; ++i) {
      cluster.clock.advance(milliseconds(250));
      CHECK(cluster.members
                .heard({{"w1", 1}, ++sequence, sequence, stepping, waits}, moment_of(cluster.clock))
                .ok());
    }
    return cluster.view("w1").waiting;
  };
  CHECK(beat(10, true, true) == 1);
  CHECK(beat(28, true, false) == Approx(0.5).margin(0.02));  // 7 s later
  CHECK(beat(400, true, false) < 0.001);
  CHECK(std::isnan(beat(1, false, false)));  // no step is in flight
  CHECK(beat(1, true, false) == 0);          // another job begins anew
}

TEST_CASE("a worker that computes too long is stuck, and one that waits for it is not") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.join("w2", 1);
  uint64_t sequence = 0;
  // Both workers hang in step 7: w1 waits for w2, or both wait.
  const auto pass = [&](int ms, bool w2_waits) {
    std::string text;
    for (int t = 0; t < ms; t += 250) {
      cluster.clock.advance(milliseconds(250));
      const Moment now = moment_of(cluster.clock);
      ++sequence;
      CHECK(cluster.members.heard({{"w1", 1}, sequence, 7, true, true}, now).ok());
      CHECK(cluster.members.heard({{"w2", 1}, sequence, 7, true, w2_waits}, now).ok());
      text += cluster.tick();
    }
    return text;
  };
  CHECK(pass(10000, true) == "");
  SECTION("one computes") {
    CHECK(pass(4500, false) == "stuck w2/1: no progress for 10 s after 7 steps\n");
  }
  SECTION("neither worker does") {
    CHECK(pass(5250, true) ==
          "stuck w1/1: no progress for 15 s after 7 steps\n"
          "stuck w2/1: no progress for 15 s after 7 steps\n");
  }
}

TEST_CASE("a worker that sends no heartbeat for 2.5 s is lost") {
  Cluster cluster;
  CHECK(cluster.join("w1", 1) == "joined w1/1\n");
  CHECK(cluster.tick() == "");
  CHECK(cluster.pass(milliseconds(60000)) == "");
  cluster.beats = false;
  CHECK(cluster.pass(milliseconds(2450)) == "");
  CHECK(name_of(cluster.view("w1").state) == "READY");
  CHECK(cluster.view("w1").silent == milliseconds(2450));
  CHECK(cluster.pass(milliseconds(50)) == "lost w1/1: no heartbeat for 2.5 s\n");
  CHECK(cluster.pass(milliseconds(10000)) == "");
  CHECK(name_of(cluster.view("w1").state) == "LOST");
  CHECK(cluster.view("w1").reason == "no heartbeat for 2.5 s");
  CHECK(cluster.members.find("w1") == nullptr);
  CHECK(cluster.members.version() == 2);
}

TEST_CASE("a worker whose connection closes is lost at once") {
  Cluster cluster;
  cluster.join("w1", 1);
  const Moment now = moment_of(cluster.clock);
  CHECK(text_of(cluster.members.lose({"w1", 2}, "closed", now)) == "");
  CHECK(text_of(cluster.members.lose({"w1", 1}, "its connection closed", now)) ==
        "lost w1/1: its connection closed\n");
  CHECK(text_of(cluster.members.lose({"w1", 1}, "its connection closed", now)) == "");
}

TEST_CASE("a lost incarnation never comes back, and a new one does") {
  Cluster cluster;
  cluster.join("w1", 1);
  (void)cluster.members.lose({"w1", 1}, "its connection closed", moment_of(cluster.clock));
  const std::string refused =
      "failed_precondition: worker 'w1' was lost: its connection closed; expected it to start "
      "anew, with a new incarnation";
  CHECK(cluster.beat("w1", 1).to_string() == refused);
  CHECK(cluster.join("w1", 1) == refused);
  CHECK(cluster.join("w1", 2) == "joined w1/2\n");
  CHECK(cluster.beat("w1", 2).ok());
  const std::string replaced =
      "failed_precondition: worker 'w1': received a message of incarnation 1, expected one of 2, "
      "which replaced it";
  CHECK(cluster.beat("w1", 1).to_string() == replaced);
  CHECK(cluster.members.check({"w1", 1}).to_string() == replaced);
  CHECK(cluster.join("w1", 1) == replaced);
  CHECK(
      cluster.beat("w2", 1).to_string() ==
      "failed_precondition: worker 'w2' is not a member of this cluster: expected it to register");
}

TEST_CASE("a name in use is refused, and that of a silent worker taken over") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.clock.advance(milliseconds(900));
  CHECK(cluster.join("w1", 2) ==
        "failed_precondition: worker 'w1': the name is in use at 10.0.0.2:17463, heard of 0.9 s "
        "ago; expected another name, or that worker to be stopped");
  CHECK(cluster.join("w1", 1) == "");  // repeated
  cluster.clock.advance(milliseconds(100));
  CHECK(cluster.join("w1", 2) ==
        "lost w1/1: another process of that name has joined\njoined w1/2\n");
  CHECK_FALSE(cluster.beat("w1", 1).ok());
}

TEST_CASE("a step without progress for 10 s is stuck, and moves on") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.pass(milliseconds(250), 7, true);
  CHECK(cluster.pass(milliseconds(9950), 7, true) == "");
  CHECK(cluster.pass(milliseconds(50), 7, true) ==
        "stuck w1/1: no progress for 10 s after 7 steps\n");
  CHECK(cluster.pass(milliseconds(20000), 7, true) == "");
  CHECK(name_of(cluster.view("w1").state) == "STUCK");
  CHECK(cluster.pass(milliseconds(250), 8, true) == "");
  CHECK(name_of(cluster.view("w1").state) == "READY");
  CHECK(cluster.view("w1").reason == "");
}

TEST_CASE("a worker that is drained while it is stuck says so when it moves on") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.pass(milliseconds(11000), 7, true);
  CHECK(name_of(cluster.view("w1").state) == "STUCK");
  const std::string stuck = cluster.view("w1").reason;
  CHECK(cluster.members.drain("w1", true, moment_of(cluster.clock)).ok());
  CHECK(cluster.view("w1").reason == stuck);
  cluster.pass(milliseconds(250), 8, true);
  CHECK(name_of(cluster.view("w1").state) == "DRAINING");
  CHECK_THAT(cluster.view("w1").reason, Catch::Equals("gets no new jobs"));
}

TEST_CASE("a step may take as long as it likes while something is computed") {
  Cluster cluster;
  cluster.join("w1", 1);
  uint64_t work = 0;
  const auto beat = [&] {
    return cluster.members.heard({{"w1", 1}, ++cluster.sequence, 0, true, false, false, work},
                                 moment_of(cluster.clock));
  };
  for (int i = 0; i < 1200; ++i) {  // five minutes
    cluster.clock.advance(milliseconds(250));
    if (i % 20 == 0) ++work;
    REQUIRE(beat().ok());
    REQUIRE(cluster.tick() == "");
  }
  std::string text;
  for (int i = 0; i < 41; ++i) {
    cluster.clock.advance(milliseconds(250));
    REQUIRE(beat().ok());
    text += cluster.tick();
  }
  CHECK_THAT(text, Catch::StartsWith("stuck w1/1: no progress for "));
}

TEST_CASE("a worker between steps is not stuck") {
  Cluster cluster;
  cluster.join("w1", 1);
  CHECK(cluster.pass(milliseconds(60000), 7, false) == "");
  CHECK(cluster.pass(milliseconds(9000), 7, true) == "");
}

TEST_CASE("slow steps are given ten times what they usually take") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.pass(milliseconds(250), 0, true);
  for (uint64_t step = 1; step <= 30; ++step) cluster.pass(milliseconds(4000), step, true);
  // The last step was reported 3.75 s ago, and the patience of 40 s began then.
  CHECK(cluster.pass(milliseconds(36000), 30, true) == "");
  CHECK(cluster.pass(milliseconds(1000), 30, true).substr(0, 10) == "stuck w1/1");
}

TEST_CASE("a new runner's counter that begins anew is progress") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.pass(milliseconds(9000), 100, true);
  CHECK(cluster.pass(milliseconds(9000), 0, true) == "");
}

TEST_CASE("a heartbeat that comes late or twice counts for nothing") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.beats = false;
  const Moment now = moment_of(cluster.clock);
  CHECK(cluster.members.heard({{"w1", 1}, 5, 3, false}, now).ok());
  cluster.pass(milliseconds(2400));
  CHECK(cluster.members.heard({{"w1", 1}, 5, 9, false}, moment_of(cluster.clock)).ok());
  CHECK(cluster.members.heard({{"w1", 1}, 4, 9, false}, moment_of(cluster.clock)).ok());
  CHECK(cluster.view("w1").progress == 3);
  CHECK(cluster.pass(milliseconds(100)) == "lost w1/1: no heartbeat for 2.5 s\n");
}

TEST_CASE("a master that was stopped for a minute declares no worker lost or stuck") {
  Cluster cluster;
  cluster.join("w1", 1);
  cluster.pass(milliseconds(5000), 1, true);
  cluster.clock.advance(milliseconds(60000));
  CHECK(cluster.tick() == "");
  CHECK(cluster.pass(milliseconds(4000), 2, true) == "");
  cluster.beats = false;
  CHECK(cluster.pass(milliseconds(2550)) == "lost w1/1: no heartbeat for 2.5 s\n");
}

TEST_CASE("jumps of the date change nothing") {
  Cluster cluster;
  cluster.join("w1", 1);
  for (const int hours : {1, -2, 1}) {
    cluster.clock.jump_wall(std::chrono::hours(hours));
    CHECK(cluster.pass(milliseconds(1000)) == "");
  }
}

TEST_CASE("a worker drains until it is told otherwise") {
  Cluster cluster;
  cluster.join("w1", 1);
  const auto drain = [&](const std::string& name, bool on) {
    const auto events = cluster.members.drain(name, on, moment_of(cluster.clock));
    return events.ok() ? text_of(*events) : events.status().to_string();
  };
  CHECK(drain("w1", true) == "drains w1/1\n");
  CHECK(drain("w1", true) == "");
  CHECK(name_of(cluster.view("w1").state) == "DRAINING");
  CHECK(drain("w1", false) == "drains no more w1/1\n");
  CHECK(drain("w2", true) == "failed_precondition: there is no worker 'w2'");
}

TEST_CASE("a worker drained by name stays drained after restarts, one that retires does not") {
  Cluster cluster;
  cluster.members.drain_names({"w3"});
  const auto drain = [&](const std::string& name, bool on) {
    const auto events = cluster.members.drain(name, on, moment_of(cluster.clock));
    return events.ok() ? text_of(*events) : events.status().to_string();
  };
  const auto retire = [&](const std::string& name, uint64_t incarnation) {
    const auto events = cluster.members.retire({name, incarnation}, moment_of(cluster.clock));
    return events.ok() ? text_of(*events) : events.status().to_string();
  };
  const auto lose = [&](const std::string& name, uint64_t incarnation) {
    (void)cluster.members.lose({name, incarnation}, "gone", moment_of(cluster.clock));
  };
  CHECK(cluster.join("w3", 1) == "joined w3/1\ndrains w3/1\n");  // drained by an earlier master
  CHECK(cluster.join("w1", 1) == "joined w1/1\n");
  CHECK(retire("w1", 7).starts_with("failed_precondition"));
  CHECK(retire("w1", 1) == "drains w1/1\n");
  CHECK(retire("w1", 1) == "");
  CHECK(cluster.view("w1").reason == "is about to end");
  CHECK(drain("w1", false) == "");
  CHECK(name_of(cluster.view("w1").state) == "DRAINING");
  lose("w1", 1);
  CHECK(cluster.join("w1", 2) == "joined w1/2\n");
  CHECK(drain("w1", true) == "drains w1/2\n");
  lose("w1", 2);
  CHECK(drain("w1", true) == "");  // it may come back
  CHECK(cluster.join("w1", 3) == "joined w1/3\ndrains w1/3\n");
  lose("w1", 3);
  CHECK(drain("w1", false) == "");
  CHECK(cluster.join("w1", 4) == "joined w1/4\n");
}

TEST_CASE("so many workers are drained by name and no more") {
  Cluster cluster;
  std::set<std::string, std::less<>> names;
  for (int i = 0; i < 4096; ++i) names.insert(cat("w", i));
  cluster.members.drain_names(names);
  cluster.join("other", 1);
  const auto drain = [&](const std::string& name, bool on) {
    const auto events = cluster.members.drain(name, on, moment_of(cluster.clock));
    return events.ok() ? text_of(*events) : events.status().to_string();
  };
  CHECK(drain("other", true) ==
        "resource_exhausted: worker 'other': expected at most 4096 drained workers");
  CHECK(drain("w7", false) == "");
  CHECK(drain("other", true) == "drains other/1\n");
}

TEST_CASE("an invalid worker is refused when it registers") {
  MembershipLimits limits;
  limits.max_workers = 1;
  Cluster cluster(limits);
  const auto code = [&](const WorkerInfo& info) {
    return cluster.members.join(info, moment_of(cluster.clock)).status().code();
  };
  CHECK(code(worker_info("", 1)) == Code::invalid_argument);
  CHECK(code(worker_info("a b", 1)) == Code::invalid_argument);
  CHECK(code(worker_info(std::string(65, 'a'), 1)) == Code::invalid_argument);
  CHECK(code(worker_info("w1", 0)) == Code::invalid_argument);
  WorkerInfo none = worker_info("w1", 1);
  none.devices.clear();
  CHECK(code(none) == Code::invalid_argument);
  const auto refusal = [&](const WorkerInfo& info) {
    return cluster.members.join(info, moment_of(cluster.clock)).status().to_string();
  };
  WorkerInfo many = worker_info("w1", 1);
  many.datasets.resize(1025);
  CHECK(refusal(many) ==
        "invalid_argument: worker 'w1': expected at most 1024 data sets, received 1025");
  many.datasets.clear();
  many.runners.resize(1025);
  CHECK(refusal(many) ==
        "invalid_argument: worker 'w1': expected at most 1024 runners, received 1025");
  CHECK(code(worker_info("w1", 1)) == Code::ok);
  CHECK(code(worker_info("w2", 2)) == Code::resource_exhausted);
  (void)cluster.members.lose({"w1", 1}, "closed", moment_of(cluster.clock));
  CHECK(code(worker_info("w2", 2)) == Code::ok);
}

TEST_CASE("a worker that was lost is forgotten in the end") {
  Cluster cluster;
  cluster.join("w1", 1);
  (void)cluster.members.lose({"w1", 1}, "closed", moment_of(cluster.clock));
  cluster.clock.advance(std::chrono::hours(23));
  cluster.tick();
  CHECK(cluster.members.workers(moment_of(cluster.clock)).size() == 1);
  cluster.clock.advance(std::chrono::hours(25));
  cluster.tick();
  cluster.tick();
  CHECK(cluster.members.workers(moment_of(cluster.clock)).empty());
}

}  // namespace
}  // namespace leat
