// Kills the master, the workers and the client of a lasting session while its steps are in flight.
// Every step that was acknowledged is applied once, and none twice: the values that the steps
// return are those of the same steps in one process.
#include <signal.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>

#include "daemon/client/session_client.h"
#include "daemon/hosts/local_hosts.h"
#include "daemon/session/session.h"
#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/session_testing.h"
#include "tests/environment_number.h"
#include "tests/eventually.h"
#include "tests/lasting_client/lasting_steps.h"
#include "tests/must.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::check_says;
using testing::floats;

uint32_t bits_of(const Tensor& value) {
  uint32_t bits = 0;
  std::memcpy(&bits, value.raw(), sizeof bits);
  return bits;
}

// The values of the steps, by the same session in this process without any fault.
std::map<uint64_t, uint32_t> sequential_twin(int workers, uint64_t steps) {
  const Catalogue catalogue = standard_catalogue();
  const auto hosts = make_local_hosts(workers, 1);
  SessionOptions options;
  options.seed = 5;
  const auto session = must(Session::open(*hosts, options));
  must(session->extend(0, must(lasting_graph(catalogue, workers))));
  std::map<uint64_t, uint32_t> values;
  for (uint64_t step = 1; step <= steps; ++step) {
    const auto out =
        must(session->run({{"x", lasting_feed(step)}}, {"sum"}, lasting_targets(workers)));
    values[step] = bits_of(out[0]);
  }
  return values;
}

class Client {
 public:
  Client(const std::string& folder, int number, std::vector<std::string> arguments)
      : out_(cat(folder, "/client", number, ".out")),
        err_(cat(folder, "/client", number, ".err")),
        child_(LASTING_CLIENT, std::move(arguments), {.folder = folder, .out = out_, .err = err_}) {
  }

  ChildProcess& child() { return child_; }
  std::string said() const { return contents_of(out_) + contents_of(err_); }
  std::string job() const {
    std::ifstream in(out_);
    std::string word, id;
    in >> word >> id;
    return word == "job" ? id : "";
  }
  // The acknowledged steps, added to `all`: each has the same value whenever it is told.
  void take(std::map<uint64_t, uint32_t>& all) const {
    std::ifstream in(out_);
    for (std::string line; std::getline(in, line);) {
      uint64_t step = 0;
      uint32_t value = 0;
      if (std::sscanf(line.c_str(), "%lu %u", &step, &value) != 2) continue;
      const auto [place, added] = all.emplace(step, value);
      INFO("step " << step);
      CHECK(added);  // a client that attaches goes on behind the last step
      CHECK(place->second == value);
    }
  }
  bool is_done() const { return said().find("\ndone") != std::string::npos; }

 private:
  const std::string out_, err_;
  ChildProcess child_;
};

}  // namespace

TEST_CASE("processes of a lasting session are killed, and each step is applied once", "[faults]") {
  const int workers = 2;
  const auto kills = static_cast<int>(environment_number("LEAT_LASTING_KILLS", 9));
  const uint64_t seed = environment_number("LEAT_LASTING_SEED", 1);
  const uint64_t steps = environment_number("LEAT_LASTING_STEPS", 1'000'000);
  std::mt19937_64 random(seed);
  ProcessCluster cluster({.workers = workers});
  REQUIRE(cluster.await_ready(workers));
  const std::string folder = cluster.folder().path();
  std::vector<std::unique_ptr<Client>> clients;
  const auto start_client = [&] {
    const std::string job = clients.empty() ? "new" : clients.front()->job();
    clients.push_back(
        std::make_unique<Client>(folder, static_cast<int>(clients.size()),
                                 std::vector<std::string>{cluster.master().ready().listen, job,
                                                          cat(workers), cat(steps), "7"}));
  };
  start_client();
  const auto acknowledged = [&] {
    const std::string said = clients.back()->said();
    return static_cast<uint64_t>(std::count(said.begin(), said.end(), '\n'));
  };
  int counts[3] = {0, 0, 0};
  for (int kill = 0; kill < kills; ++kill) {
    // A step is in flight at each kill. Some come in the middle of the recovery from the last one.
    const bool at_once = kill > 0 && random() % 4 == 0;
    const uint64_t enough = at_once ? 0 : acknowledged() + 3 + random() % 20;
    INFO("kill " << kill << ": " << clients.back()->said() << cluster.logs());
    REQUIRE(eventually([&] { return acknowledged() >= enough; }, 60s));
    const auto what = kill < 3 ? static_cast<uint64_t>(kill) : random() % 3;
    ++counts[what];
    if (what == 0) {
      cluster.restart_master(SIGKILL);
    } else if (what == 1) {
      cluster.start_worker(static_cast<int>(random() % workers));
    } else {
      clients.back()->child().signal(SIGKILL);
      REQUIRE(clients.back()->child().wait(20s));
      start_client();
    }
  }
  const uint64_t last = acknowledged() + 5;
  INFO(clients.back()->said() << cluster.logs());
  REQUIRE(eventually([&] { return acknowledged() >= last; }, 60s));
  clients.back()->child().signal(SIGKILL);
  REQUIRE(clients.back()->child().wait(20s));
  // The outcome of the step that was in flight is known by asking.
  ClusterClientOptions master;
  master.address = cluster.master().ready().listen;
  const auto session = must(RemoteSession::attach(master, clients.front()->job()));
  const uint64_t taken = must(session->steps());
  std::map<uint64_t, uint32_t> values;
  for (const auto& client : clients) client->take(values);
  const auto expected = sequential_twin(workers, taken + 1);
  uint64_t wrong = 0;
  for (const auto& [step, value] : values) wrong += expected.at(step) != value ? 1 : 0;
  CHECK(wrong == 0);
  // Steps whose acknowledgement was lost with their client were applied as well, or not taken.
  CHECK(values.rbegin()->first <= taken);
  if (!values.contains(taken))
    CHECK(bits_of(must(session->outcome(taken))[0]) == expected.at(taken));
  const auto next =
      must(session->run({{"x", lasting_feed(taken + 1)}}, {"sum"}, lasting_targets(workers)));
  CHECK(bits_of(next[0]) == expected.at(taken + 1));
  session->close();
  CHECK(cluster.await_state(session->job(), {"SUCCEEDED"}) == "SUCCEEDED");
  std::cout << "lasting session: killed the master " << counts[0] << ", a worker " << counts[1]
            << ", the client " << counts[2] << " times; of " << taken << " steps " << values.size()
            << " were acknowledged, " << wrong << " with other bits\n";
}

TEST_CASE("a lasting session has one client, and goes on when that goes", "[cluster]") {
  ProcessCluster cluster({.workers = 1});
  REQUIRE(cluster.await_ready(1));
  ClusterClientOptions master;
  master.address = cluster.master().ready().listen;
  const Catalogue catalogue = standard_catalogue();
  RemoteSessionOptions options;
  options.save_every = 50;
  options.seed = 5;
  const auto expected = sequential_twin(1, 40);
  auto first = must(RemoteSession::open(master, options));
  const std::string job = first->job();
  must(first->extend(0, must(lasting_graph(catalogue, 1))));
  const auto run = [&](RemoteSession& session, uint64_t step) {
    return session.run({{"x", lasting_feed(step)}}, {"sum"}, lasting_targets(1));
  };
  for (uint64_t step = 1; step <= 5; ++step)
    CHECK(bits_of(must(run(*first, step))[0]) == expected.at(step));
  SECTION("a session of another kind is not attached to") {
    first->close();
    CHECK(cluster.await_state(job, {"SUCCEEDED"}) == "SUCCEEDED");
    CHECK(RemoteSession::attach(master, job).status().code() == Code::failed_precondition);
    const auto plain = must(RemoteSession::open(master, {}));
    check_says(RemoteSession::attach(master, plain->job()).status(), Code::failed_precondition,
               "expected a lasting one");
    CHECK(plain->steps().status().code() == Code::failed_precondition);
    CHECK(plain->save().code() == Code::failed_precondition);
  }
  SECTION("another client attaches") {
    const auto second = must(RemoteSession::attach(master, job));
    CHECK(second->version() == 1);
    CHECK(must(second->steps()) == 5);
    check_says(run(*first, 6).status(), Code::failed_precondition, "another client has attached");
    CHECK(must(second->steps()) == 5);
    CHECK(bits_of(must(run(*second, 6))[0]) == expected.at(6));
    second->close();
    CHECK(cluster.await_state(job, {"SUCCEEDED"}) == "SUCCEEDED");
  }
  SECTION("another client attaches, and the master starts again") {
    const auto second = must(RemoteSession::attach(master, job));
    CHECK(bits_of(must(run(*second, 6))[0]) == expected.at(6));
    cluster.restart_master(SIGKILL);
    // The former client comes first, and is told the same as before the restart.
    check_says(run(*first, 7).status(), Code::failed_precondition, "another client has attached");
    CHECK(bits_of(must(run(*second, 7))[0]) == expected.at(7));
    second->close();
    CHECK(cluster.await_state(job, {"SUCCEEDED"}) == "SUCCEEDED");
  }
  SECTION("a client lets it go, and comes back") {
    std::vector<RemoteStep> flight;
    for (uint64_t step = 6; step <= 20; ++step)
      flight.push_back(
          must(first->start({{"x", lasting_feed(step)}}, {"sum"}, lasting_targets(1))));
    for (uint64_t step = 6; step <= 20; ++step) {
      const auto out = must(flight[step - 6].wait());
      CHECK(bits_of(out[0]) == expected.at(step));
    }
    flight.clear();
    first.reset();
    const auto again = must(RemoteSession::attach(master, job));
    CHECK(must(again->steps()) == 20);
    CHECK(bits_of(must(again->outcome(20))[0]) == expected.at(20));
    check_says(again->outcome(21).status(), Code::failed_precondition, "has not taken step 21");
    must(again->save());
    CHECK(bits_of(must(run(*again, 21))[0]) == expected.at(21));
    // Calls that come behind steps in flight: the steps have the callable, and the save has them.
    const CallableId id = must(again->make_callable({{"x"}, {"sum"}, lasting_targets(1)}));
    for (uint64_t step = 22; step <= 30; ++step)
      flight.push_back(must(again->start_callable(id, {lasting_feed(step)})));
    must(again->release_callable(id));
    must(again->save());
    for (uint64_t step = 22; step <= 30; ++step) {
      CHECK(flight[step - 22].over());
      CHECK(bits_of(must(flight[step - 22].wait())[0]) == expected.at(step));
    }
    flight.clear();
    // A step that fails takes a number, and nothing else.
    CHECK(again->run({}, {"nothing"}, {}).status().code() == Code::invalid_argument);
    CHECK(must(again->steps()) == 31);
    again->close();
  }
  SECTION("its worker is drained, and it goes on with another") {
    cluster.start_worker(1);
    REQUIRE(cluster.await_ready(2));
    REQUIRE(cluster.leat("nodes", {"drain", "w0"}).exit_code == 0);
    for (uint64_t step = 6; step <= 9; ++step)
      CHECK(bits_of(must(run(*first, step))[0]) == expected.at(step));
    CHECK(eventually([&] { return cluster.show(job).find("\"w1\"") != std::string::npos; }));
    CHECK(bits_of(must(run(*first, 10))[0]) == expected.at(10));
    first->close();
  }
}

TEST_CASE("a lasting session whose runner crashes again and again while it is idle goes on",
          "[cluster]") {
  // The first process of a namespace gets no SIGSEGV from outside.
  ProcessCluster cluster({.workers = 1, .worker = {"--set", "runner.confine=insecure_off"}});
  REQUIRE(cluster.await_ready(1));
  ClusterClientOptions master;
  master.address = cluster.master().ready().listen;
  RemoteSessionOptions options;
  options.save_every = 50;
  options.seed = 5;
  const auto expected = sequential_twin(1, 2);
  const auto session = must(RemoteSession::open(master, options));
  must(session->extend(0, must(lasting_graph(standard_catalogue(), 1))));
  const auto run = [&](uint64_t step) {
    return bits_of(must(session->run({{"x", lasting_feed(step)}}, {"sum"}, lasting_targets(1)))[0]);
  };
  CHECK(run(1) == expected.at(1));
  pid_t last = 0;
  for (int crash = 1; crash <= 4; ++crash) {
    INFO("crash " << crash << cluster.show(session->job()) << cluster.logs());
    REQUIRE(eventually([&] {
      const auto runners = cluster.runners();
      return runners.size() == 1 && runners[0] != last &&
             cluster.leat("why", {session->job()}).out.find("asked for nothing") !=
                 std::string::npos;
    }));
    last = cluster.runners().at(0);
    REQUIRE(::kill(last, SIGSEGV) == 0);
  }
  // A runner that crashes may still serve a step that comes at once.
  REQUIRE(eventually([&] {
    return cluster.show(session->job()).find("\"lost_assemblies\":4") != std::string::npos;
  }));
  CHECK(run(2) == expected.at(2));
  // The first crash may come so soon after the step that it counts.
  CHECK_THAT(cluster.show(session->job()),
             Catch::Contains("\"restarts\":0") || Catch::Contains("\"restarts\":1"));
  session->close();
  CHECK(cluster.await_state(session->job(), {"SUCCEEDED"}) == "SUCCEEDED");
}

TEST_CASE("a lasting session ends when it had no client for long enough", "[cluster]") {
  ProcessCluster cluster({.workers = 1});
  REQUIRE(cluster.await_ready(1));
  ClusterClientOptions master;
  master.address = cluster.master().ready().listen;
  RemoteSessionOptions options;
  options.save_every = 1;
  options.keep = 300ms;
  auto session = must(RemoteSession::open(master, options));
  const std::string job = session->job();
  session.reset();
  CHECK(cluster.await_state(job, {"CANCELLED"}) == "CANCELLED");
  options.keep = 0ms;
  check_says(RemoteSession::open(master, options).status(), Code::invalid_argument, "keep in ms");
  options.keep = 1h;
  options.save_every = 2'000'000;
  check_says(RemoteSession::open(master, options).status(), Code::invalid_argument, "save_every");
}

}  // namespace leat
