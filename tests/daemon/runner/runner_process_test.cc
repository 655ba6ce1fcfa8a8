// Tests `leatd runner` as its worker starts it: runs between processes, and how each process ends.
#include <signal.h>

#include "tests/catch.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/daemon/session_testing.h"
#include "tests/promised_time.h"

namespace leat::testing {
namespace {

constexpr uint64_t kInitRun = 1, kTrainRun = 2, kForEver = 1'000'000'000;
constexpr int kWorkerGone = 3, kMasterGone = 4;

RunnerTestOptions process_options(const MirroredJob& job, int runners) {
  RunnerTestOptions options;
  options.runners = runners;
  options.datasets = {{"tiny", job.directory()}};
  options.processes = true;
  return options;
}

void open_run(RunnerTestCluster& cluster, uint64_t run, const Plan& plan,
              const std::string& transport) {
  must(cluster.prepare_all(run, plan));
  RunSetup setup = cluster.setup(plan, transport);
  setup.data_root = "tiny";
  must(cluster.connect_all(run, setup));
}

// Makes two runners step.
void begin(RunnerTestCluster& cluster, const MirroredJob& job, const std::string& transport) {
  open_run(cluster, kInitRun, job.init_plan(2), transport);
  cluster.extend_all(kInitRun, 1);
  for (uint32_t t : {0u, 1u}) must(cluster.await(t, kInitRun, 1).failure);
  open_run(cluster, kTrainRun, job.train_plan(2), transport);
}

}  // namespace

TEST_CASE("runners in processes of their own give the bits of a local cluster") {
  const MirroredJob job;
  constexpr uint64_t kSteps = 20;
  const Trained trained = job.train_locally(2, kSteps);
  for (const char* transport : {"tcp", "shm"}) {
    INFO(transport);
    RunnerTestCluster cluster(process_options(job, 2));
    begin(cluster, job, transport);
    cluster.extend_all(kTrainRun, kSteps);
    for (uint32_t t : {0u, 1u}) {
      const Heard heard = cluster.await(t, kTrainRun, kSteps);
      must(heard.failure);
      if (!trained.rows[t][0].empty()) CHECK(heard.rows == trained.rows[t]);
    }
    // Of the run that was released, too.
    must(cluster.release(1, kInitRun));
    CHECK(cluster.await_pulse(1, kSteps + 1) == std::pair<uint64_t, bool>(kSteps + 1, false));
  }
}

TEST_CASE("the pulses of two runners agree on what went over their links, also after a release") {
  const MirroredJob job;
  constexpr uint64_t kSteps = 20;
  for (const char* transport : {"tcp", "shm"}) {
    INFO(transport);
    RunnerTestCluster cluster(process_options(job, 2));
    begin(cluster, job, transport);
    cluster.extend_all(kTrainRun, kSteps);
    for (uint32_t t : {0u, 1u}) must(cluster.await(t, kTrainRun, kSteps).failure);
    for (uint32_t t : {0u, 1u}) must(cluster.release(t, kTrainRun));
    LinkCounters traffic[2];
    for (uint32_t t : {0u, 1u}) {
      const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      RunnerPulse pulse;
      while (pulse.turns < kSteps + 1) pulse = cluster.next_pulse(t, deadline);
      traffic[t] = cluster.next_pulse(t, deadline).traffic;
    }
    CHECK(traffic[0].values_sent >= kSteps);
    CHECK(traffic[0].values_sent == traffic[1].values_received);
    CHECK(traffic[1].values_sent == traffic[0].values_received);
    CHECK(traffic[0].bytes_sent >= 4 * kSteps);
    CHECK(traffic[0].late_values == 0);
  }
}

TEST_CASE("a runner that waits for a peer says so in its pulse, an idle one does not") {
  const MirroredJob job;
  RunnerTestCluster cluster(process_options(job, 2));
  begin(cluster, job, "tcp");
  must(cluster.extend(0, kTrainRun, 5));
  cluster.await_waiting(0);
  CHECK_FALSE(cluster.await_pulse(1, 0).second);
  must(cluster.extend(1, kTrainRun, 5));
  for (uint32_t t : {0u, 1u}) must(cluster.await(t, kTrainRun, 5).failure);
  CHECK_FALSE(cluster.await_pulse(0, 6).second);
}

TEST_CASE("a runner whose peer is killed says so at once, in the middle of a step or idle") {
  const MirroredJob job;
  for (const char* transport : {"tcp", "shm"}) {
    for (const bool stepping : {true, false}) {
      INFO(transport << (stepping ? ", stepping" : ", idle"));
      RunnerTestCluster cluster(process_options(job, 2));
      begin(cluster, job, transport);
      cluster.extend_all(kTrainRun, stepping ? kForEver : 5);
      for (uint32_t t : {0u, 1u}) cluster.await(t, kTrainRun, 5);
      const auto killed = std::chrono::steady_clock::now();
      cluster.signal(1, SIGKILL);
      const Heard heard = cluster.await(0, kTrainRun, kForEver);
      check_promised(killed, std::chrono::seconds(2));
      CHECK(heard.failure.code() == Code::unavailable);
      CHECK_THAT(heard.failure.message(), Catch::Contains("node-1"));
      CHECK_FALSE(heard.derived);
      CHECK(cluster.exit_code(1) == 128 + SIGKILL);
      must(cluster.release(0, kTrainRun));
    }
  }
}

// Has both runners step without an end, and waits until they do.
void let_step(RunnerTestCluster& cluster, const MirroredJob& job) {
  begin(cluster, job, "auto");
  cluster.extend_all(kTrainRun, kForEver);
  for (uint32_t t : {0u, 1u}) cluster.await(t, kTrainRun, 3);
}

TEST_CASE("a runner that is asked to end tells its peers, and ends well") {
  const MirroredJob job;
  RunnerTestCluster cluster(process_options(job, 2));
  let_step(cluster, job);
  cluster.signal(1, SIGTERM);
  CHECK(cluster.exit_code(1) == 0);
  const Heard heard = cluster.await(0, kTrainRun, kForEver);
  CHECK(heard.derived);
  // A job goes on after such an error.
  CHECK(heard.failure.code() == Code::unavailable);
  CHECK_THAT(heard.failure.message(), Catch::Contains("node-1 failed: the runner ends: signal 15"));
}

TEST_CASE("a runner that has lost its worker tells its peers so") {
  const MirroredJob job;
  RunnerTestCluster cluster(process_options(job, 2));
  let_step(cluster, job);
  cluster.close_worker(1);
  CHECK(cluster.exit_code(1) == kWorkerGone);
  const Heard heard = cluster.await(0, kTrainRun, kForEver);
  CHECK(heard.derived);
  CHECK(heard.failure.code() == Code::unavailable);
  CHECK_THAT(heard.failure.message(), Catch::Contains("node-1 failed: the runner ends"));
}

TEST_CASE("a runner ends with its worker, and with its connection to the master") {
  const MirroredJob job;
  {
    RunnerTestCluster cluster(process_options(job, 1));
    cluster.close_worker(0);
    CHECK(cluster.exit_code(0) == kWorkerGone);
  }
  RunnerTestCluster cluster(process_options(job, 2));
  begin(cluster, job, "auto");
  cluster.extend_all(kTrainRun, kForEver);
  cluster.await(0, kTrainRun, 3);
  cluster.close_master();
  CHECK(cluster.exit_code(0) == kMasterGone);
  CHECK(cluster.exit_code(1) == kMasterGone);
}

TEST_CASE("a runner that is told nonsense does not start") {
  Bytes boot(8 + 16, std::byte{0xff});
  boot[0] = std::byte{16};
  for (size_t i = 1; i < 8; ++i) boot[i] = std::byte{0};
  CHECK(exit_code_of_runner(boot) == 1);
}

}  // namespace leat::testing
