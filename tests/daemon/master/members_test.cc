// Tests a master's view of workers that come and go, over real connections.
#include "tests/catch.h"
#include "tests/daemon/master/master_fixture.h"

namespace leat {

using namespace testing;

TEST_CASE("a worker that registers is a node of the cluster", "[cluster]") {
  Host host;
  const FakeWorker worker(host.master->address(), "w1", 7);
  REQUIRE_OK(worker.registered());
  CHECK(worker.cluster_id() == host.master->status().cluster().id);
  const auto nodes = host.master->status().nodes();
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0].worker.info.worker == WorkerRef{"w1", 7});
  CHECK(nodes[0].worker.info.datasets == std::vector<std::string>{"digits"});
  CHECK(nodes[0].worker.state == WorkerState::ready);
  CHECK(eventually([&] { return host.master->status().nodes()[0].worker.silent < 20ms; }));
  CHECK(host.master->status().cluster().membership == 1);
}

TEST_CASE("the name of a worker that lives is refused, and free when it hangs up", "[cluster]") {
  Host host;
  auto first = std::make_unique<FakeWorker>(host.master->address(), "w1", 1);
  const FakeWorker second(host.master->address(), "w1", 2);
  CHECK(second.registered().code() == Code::failed_precondition);
  CHECK_THAT(second.registered().message(), Catch::Contains("the name is in use"));
  first.reset();
  REQUIRE(eventually([&] { return host.worker_state("w1") == "LOST"; }));
  CHECK(host.master->status().nodes()[0].worker.reason == "its connection has ended");
  const FakeWorker third(host.master->address(), "w1", 3);
  CHECK((third.registered()).to_string() == "ok");
  const FakeWorker old(host.master->address(), "w1", 1);
  CHECK(old.registered().code() == Code::failed_precondition);
}

TEST_CASE("a worker whose heartbeats stop is lost, and is told so", "[cluster]") {
  Host host;
  host.tuning.cluster.members.suspect = 800ms;
  host.tuning.cluster.members.dead = 1600ms;
  host.restart();
  FakeWorker silent(host.master->address(), "w1", 1, false);
  FakeWorker beating(host.master->address(), "w2", 1);
  REQUIRE(eventually([&] { return silent.lost(); }));
  CHECK(host.worker_state("w1") == "LOST");
  CHECK_THAT(host.master->status().nodes()[0].worker.reason, Catch::Contains("no heartbeat for "));
  CHECK(host.worker_state("w2") == "READY");
  CHECK((beating.heart()).to_string() == "ok");
}

TEST_CASE("heartbeats of a process that is no member are refused", "[cluster]") {
  Host host;
  host.tuning.cluster.members.suspect = 100ms;
  host.restart();
  FakeWorker worker(host.master->address(), "w1", 1);
  REQUIRE(eventually([&] { return host.master->status().nodes().size() == 1; }));
  // A new incarnation takes its place after a silence.
  worker.stop_beating();
  std::unique_ptr<FakeWorker> next;
  REQUIRE(eventually([&] {
    next = std::make_unique<FakeWorker>(host.master->address(), "w1", 2, false);
    return next->registered().ok();
  }));
  CHECK(eventually([&] { return worker.lost(); }));
  CHECK(host.master->status().nodes()[0].worker.info.worker.incarnation == 2);
}

TEST_CASE("a connection of another role is not what workers and runners call", "[cluster]") {
  Host host;
  FakeWorker worker(host.master->address(), "w1");
  CHECK(worker.log("no-such-job", {"text"}).code() == Code::invalid_argument);
  const auto stray =
      FakeRunner::connect(host.master->address(), {"job", 1, 0, "", ""}, std::string(32, 'x'));
  CHECK(stray->registered().code() == Code::failed_precondition);
}

}  // namespace leat
