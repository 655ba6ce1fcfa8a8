// Tests which peers a run accepts, and how peers find each other.
#include "daemon/runner/run_links.h"

#include <sys/socket.h>

#include "daemon/runner/arrivals.h"
#include "daemon/runner/control_threads.h"
#include "daemon/runner/device_memory.h"
#include "scheduler/capnp/plan_file.h"
#include "tests/catch.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/daemon/session_testing.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kRun = 5;

Endpoint endpoint(const std::string& node, const std::string& machine, const std::string& unix) {
  Endpoint endpoint;
  endpoint.node = node;
  endpoint.machine = machine;
  endpoint.unix_address = unix;
  endpoint.data_address = "127.0.0.1:1";
  return endpoint;
}

// A connection with this identity, and the dialer's end of it.
struct Dialed {
  explicit Dialed(const Identity& identity, SocketRole role = SocketRole::express) {
    auto ends = must(socket_pair());
    mine = std::move(ends.first);
    connection.socket = std::move(ends.second);
    connection.hello.identity = identity;
    connection.hello.role = role;
  }
  // Whether the other end closes the connection within 10 s.
  bool dropped() const {
    std::byte byte;
    const Status status =
        receive_all(mine.get(), {&byte, 1}, std::chrono::steady_clock::now() + 30s, "a byte");
    return status.code() == Code::unavailable;
  }
  bool open() const {
    std::byte byte;
    return ::recv(mine.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  Descriptor mine;
  Connection connection;
};

// Returns the identity that partition 0 sends to partition 1 of the cluster's run.
Identity identity_of(const RunSetup& setup) {
  Identity identity;
  identity.cluster = setup.cluster;
  identity.assembly = setup.assembly;
  identity.run = kRun;
  identity.plan = setup.plan;
  identity.source = 0;
  identity.destination = 1;
  identity.source_incarnation = setup.peers[0].incarnation;
  identity.destination_incarnation = setup.peers[1].incarnation;
  return identity;
}

RunnerTestOptions link_options(const MirroredJob& job) {
  RunnerTestOptions options;
  options.datasets = {{"tiny", job.directory()}};
  return options;
}

}  // namespace

TEST_CASE("memory is shared where both may, on one machine, and else there is TCP", "[cluster]") {
  const Endpoint a = endpoint("a", "m1", "unix:/a"), b = endpoint("b", "m1", "unix:/b"),
                 far = endpoint("far", "m2", "unix:/b"), shy = endpoint("shy", "m1", ""),
                 nowhere = endpoint("nowhere", "", "unix:/n");
  CHECK(must(choose_carrier("auto", a, b)) == Carrier::shm);
  CHECK(must(choose_carrier("shm", a, b)) == Carrier::shm);
  CHECK(must(choose_carrier("tcp", a, b)) == Carrier::tcp);
  CHECK(must(choose_carrier("auto", a, far)) == Carrier::tcp);
  CHECK(must(choose_carrier("auto", a, shy)) == Carrier::tcp);
  CHECK(must(choose_carrier("auto", shy, a)) == Carrier::tcp);
  CHECK(must(choose_carrier("auto", nowhere, nowhere)) == Carrier::tcp);
  check_says(choose_carrier("shm", a, far).status(), Code::failed_precondition,
             "transport shm from a to far: expected both on one machine");
  check_says(choose_carrier("shm", a, shy).status(), Code::failed_precondition,
             "transport shm from a to shy: expected both to allow shared memory");
}

TEST_CASE("connections of another assembly, process, plan or role are dropped", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(link_options(job));
  const Plan plan = job.train_plan(2);
  RunSetup setup = cluster.setup(plan, "tcp");
  setup.data_root = "tiny";
  const Identity right = identity_of(setup);

  // Before the run is known, only identities that can never fit this process are refused.
  Identity old_assembly = right, old_process = right;
  --old_assembly.assembly;
  ++old_process.destination_incarnation;
  Dialed at_once[] = {Dialed(old_assembly), Dialed(old_process), Dialed(right, SocketRole::shm)};
  for (Dialed& dialed : at_once) {
    cluster.hand_over(1, std::move(dialed.connection));
    CHECK(dialed.dropped());
  }
  // The others are refused when the run connects, which succeeds in spite of them.
  Identity other_plan = right, other_cluster = right, other_peer = right;
  ++other_plan.plan[0];
  ++other_cluster.cluster[0];
  ++other_peer.source_incarnation;
  Dialed later[] = {Dialed(other_plan), Dialed(other_cluster), Dialed(other_peer)};
  for (Dialed& dialed : later) {
    cluster.hand_over(1, std::move(dialed.connection));
    CHECK(dialed.open());
  }
  must(cluster.prepare_all(kRun, plan));
  must(cluster.connect_all(kRun, setup));
  for (Dialed& dialed : later) CHECK(dialed.dropped());
  cluster.extend_all(kRun, 3);
  must(cluster.await(1, kRun, 3).failure);
}

TEST_CASE("connections of the assembly before are dropped when a runner has gone on", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(link_options(job));
  const RunSetup setup = cluster.setup(job.train_plan(2), "tcp");
  const Identity before = identity_of(setup);
  Dialed waits(before), late(before);
  cluster.hand_over(1, std::move(waits.connection));
  CHECK(waits.open());
  RunnerAssembly next{setup.assembly + 1, {}};
  next.key.fill(7);
  const RunKey old_key = cluster.config(1).assembly.key;
  must(cluster.advance(1, next));
  CHECK(waits.dropped());
  cluster.hand_over(1, std::move(late.connection));
  CHECK(late.dropped());

  LinkHello hello;
  hello.identity = before;
  hello.role = SocketRole::shm;
  const std::string address = cluster.endpoint(1).unix_address;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  CHECK_FALSE(dial(address, hello, old_key, deadline).ok());
  hello.identity.assembly = next.number;
  CHECK_FALSE(dial(address, hello, old_key, deadline).ok());
  CHECK(dial(address, hello, next.key, deadline).ok());
}

TEST_CASE("a dialer of shared memory needs the key and the right process", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(link_options(job));
  const RunSetup setup = cluster.setup(job.train_plan(2), "shm");
  LinkHello hello;
  hello.identity = identity_of(setup);
  hello.role = SocketRole::shm;
  const std::string address = cluster.endpoint(1).unix_address;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  CHECK(dial(address, hello, cluster.config(1).assembly.key, deadline).ok());
  RunKey wrong = cluster.config(1).assembly.key;
  ++wrong[0];
  check_says(dial(address, hello, wrong, deadline).status(), Code::failed_precondition, "key");
  ++hello.identity.destination_incarnation;
  check_says(dial(address, hello, cluster.config(1).assembly.key, deadline).status(),
             Code::failed_precondition, "destination incarnation is not");
}

TEST_CASE("runners that may not share memory have no place for it, and use TCP", "[cluster]") {
  const MirroredJob job;
  RunnerTestOptions options = link_options(job);
  options.may_share_memory = false;
  RunnerTestCluster cluster(options);
  CHECK(cluster.endpoint(0).unix_address.empty());
  const Plan plan = job.train_plan(2);
  RunSetup setup = cluster.setup(plan, "auto");
  setup.data_root = "tiny";
  must(cluster.prepare_all(kRun, plan));
  must(cluster.connect_all(kRun, setup));
  must(cluster.prepare_all(kRun + 1, plan));
  setup.transport = "shm";
  check_says(cluster.connect_all(kRun + 1, setup), Code::failed_precondition,
             "expected both to allow shared memory");
}

TEST_CASE("a setup that is another runner's or assembly's is refused", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(link_options(job));
  const Plan plan = job.train_plan(2);
  must(cluster.prepare_all(kRun, plan));
  const RunSetup right = cluster.setup(plan, "auto");
  RunSetup wrong = right;
  ++wrong.assembly;
  check_says(cluster.connect(0, kRun, wrong), Code::invalid_argument, "assembly: expected 7");
  wrong = right;
  wrong.peers.pop_back();
  check_says(cluster.connect(0, kRun, wrong), Code::invalid_argument,
             "expected one for each of 2 partitions, received 1");
  wrong = right;
  std::swap(wrong.peers[0], wrong.peers[1]);
  check_says(cluster.connect(0, kRun, wrong), Code::invalid_argument,
             "expected partition 0 to be task 0");
  wrong = right;
  wrong.transport = "pigeon";
  check_says(cluster.connect(0, kRun, wrong), Code::invalid_argument, "received 'pigeon'");
  wrong = right;
  wrong.data_root = "elsewhere";
  check_says(cluster.connect(0, kRun, wrong), Code::invalid_argument, "data set 'elsewhere'");
}

TEST_CASE("connections wait for their run only so long, and only so many", "[cluster]") {
  Arrivals::Options options;
  options.most = 2;
  options.patience = 0ms;
  Arrivals hasty(options);
  options.patience = 10'000ms;
  Arrivals patient(options);
  Identity identity;
  for (int i = 0; i < 3; ++i) {
    hasty.add(std::move(Dialed(identity).connection));
    patient.add(std::move(Dialed(identity).connection));
  }
  CHECK(hasty.waiting() == 1);
  CHECK(patient.waiting() == 2);
  const auto taken = [&] {
    return patient.take(identity, SocketRole::express, std::chrono::steady_clock::now() + 1ms,
                        [] { return Status(); });
  };
  CHECK(taken().ok());
  CHECK(taken().ok());
  CHECK(taken().status().code() == Code::deadline_exceeded);
}

TEST_CASE("the memory of a job's variables counts once, that of its runs for each", "[cluster]") {
  Partition partition;
  partition.device = "cpu:0";
  partition.arena_bytes = 100;
  PlanResource variable;
  variable.name = "w";
  variable.bytes = 1000;
  partition.resources.push_back(variable);
  DeviceMemory memory({1250});
  must(memory.reserve({1, 0}, 0, partition, 0));
  must(memory.reserve({1, 0}, 0, partition, 0));
  must(memory.reserve({2, 0}, 0, partition, 0));
  const Status full = memory.reserve({3, 0}, 0, partition, 0);
  check_says(full, Code::resource_exhausted,
             "cpu:0: expected run 3 to fit 1.2 KiB, it needs 100 B");
  memory.release({1, 0});
  must(memory.reserve({3, 0}, 0, partition, 0));
  memory.release({2, 0});
  memory.release({3, 0});
  partition.resources[0].name = "v";
  CHECK(memory.reserve({4, 0}, 0, partition, 0).code() == Code::resource_exhausted);
}

TEST_CASE("each device of a runner has a memory of its own", "[cluster]") {
  Partition partition;
  partition.arena_bytes = 100;
  DeviceMemory memory({150, 150});
  must(memory.reserve({1, 0}, 0, partition, 0));
  must(memory.reserve({1, 1}, 1, partition, 0));
  CHECK(memory.reserve({2, 0}, 0, partition, 0).code() == Code::resource_exhausted);
  must(memory.reserve_data("on the CPU", 50));
  memory.release({1, 1});
  must(memory.reserve({2, 1}, 1, partition, 50));
  CHECK(memory.reserve({2, 0}, 0, partition, 0).code() == Code::resource_exhausted);
}

TEST_CASE("a strand's work is done in order, and a strand that waits holds up no other",
          "[cluster]") {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> done;
  bool open = false;
  ControlThreads threads;  // after what its strands use
  auto first = threads.strand(), second = threads.strand();
  const auto note = [&](int what) {
    std::lock_guard lock(mutex);
    done.push_back(what);
    changed.notify_all();
  };
  first.post([&] {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 30s, [&] { return open; });
  });
  for (int i = 1; i <= 3; ++i) first.post([&, i] { note(i); });
  second.post([&] {
    note(0);
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  REQUIRE(changed.wait_for(lock, 60s, [&] { return done.size() == 4; }));
  CHECK(done == std::vector<int>{0, 1, 2, 3});
}

}  // namespace leat::testing
