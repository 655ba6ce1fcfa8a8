// Jobs that release workers and take in others between two steps, on real daemons: no step may be
// lost or done twice, and the weights must be those of one process.
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/training/trainer.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kMoved = 5000ms;  // the promised time for a worker to be free of its job

// A number of steps that a job does not finish before the test has acted on it; fewer on slow
// machines.
constexpr uint64_t long_enough(uint64_t steps) { return kSlowness == 1 ? steps : steps / 4; }

ProcessClusterOptions cluster_of(int workers) {
  ProcessClusterOptions options;
  options.workers = workers;
  options.master = {"--set", "grow_after=100ms"};
  return options;
}

// Checks that the metrics have each step once and in order, with the expected losses.
void check_metrics(const std::string& metrics, const std::string& expected) {
  std::istringstream rows(metrics), others(expected);
  size_t count = 0;
  for (std::string row, other; std::getline(rows, row) && std::getline(others, other); ++count) {
    if (row != other) FAIL("row " << count << ": " << row << "\ninstead of " << other);
  }
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') ==
        std::count(expected.begin(), expected.end(), '\n'));
}

void check_end(JobScene& scene, const std::string& id, const std::string& hash) {
  const JobView end = scene.await_end(id);
  INFO(end.condition.reason << scene.cluster().logs());
  CHECK(end.condition.state == JobState::succeeded);
  CHECK(end.condition.result.weights_sha256 == hash);
  check_metrics(scene.metrics(id), scene.expected_metrics());
}

JobView await_workers(JobScene& scene, const std::string& id, size_t workers) {
  return scene.await(id, [&](const JobView& view) {
    return view.condition.state == JobState::running && view.condition.workers.size() == workers &&
           !view.history.last.empty() && view.history.last.back().recovered_after >= 0;
  });
}

TEST_CASE("an elastic job goes from four workers to two, three and four, and none is noticed",
          "[faults]") {
  JobScene scene(cluster_of(4));
  const Job job = scene.job(long_enough(2000), {"num_workers=[2, 4]", "shards=4"});
  const std::string hash = scene.expected(job);
  const std::string id = scene.submit(job);
  (void)scene.await_step(id, 40, 1);
  for (const int worker : {1, 2}) scene.cluster().worker(worker).signal(SIGKILL);
  const JobView two = await_workers(scene, id, 2);
  CHECK(two.min_workers == 2);
  CHECK(two.num_workers == 4);
  scene.cluster().start_worker(1);
  const JobView three = await_workers(scene, id, 3);
  scene.cluster().start_worker(2);
  const JobView four = await_workers(scene, id, 4);
  CHECK(four.condition.restarts == two.condition.restarts);
  CHECK(four.condition.restarts <= 2);
  for (const LostAssembly& each : four.history.last) {
    INFO(each.cause);
    CHECK(each.source == RecoverySource::memory);
    if (each.culprit.empty()) CHECK(each.recomputed() == 0);
  }
  check_end(scene, id, hash);
  CHECK(scene.cluster().await_no_runners());
}

enum class Leave { drain, term };

// Makes the worker leave, waits until it has no runner, and returns the time that this took.
std::chrono::milliseconds leave(JobScene& scene, const std::string& worker, Leave how) {
  LeatdProcess& process = scene.cluster().worker(worker);
  const auto begun = std::chrono::steady_clock::now();
  if (how == Leave::drain) {
    must(scene.client().drain(worker).status());
    const auto is_free = [&] {
      for (const NodeView& node : must(scene.client().nodes())) {
        if (node.worker.info.worker.name != worker) continue;
        CHECK(node.worker.state == WorkerState::draining);
        return node.job.empty();
      }
      return false;
    };
    CHECK(eventually(is_free, 60s * kSlowness, 5ms));
  } else {
    process.signal(SIGTERM);
    CHECK(process.wait() == 0);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begun);
}

TEST_CASE("a job moves from a worker that drains, or ends, to another, and loses no step",
          "[faults]") {
  const Leave how = GENERATE(Leave::drain, Leave::term);
  JobScene scene(cluster_of(4));
  const Job job = scene.job(long_enough(1000), {"shards=3"});
  const std::string hash = scene.expected(job);
  const std::string id = scene.submit(job);
  const JobView before = scene.await_step(id, 60, 1);
  const auto runners = scene.runners(before);
  const std::string worker = before.condition.workers[1];
  check_promised(leave(scene, worker, how), kMoved);
  const JobView after = scene.await(id, [](const JobView& view) {
    return !view.history.last.empty() && view.history.last[0].recovered_after >= 0;
  });
  INFO(scene.cluster().logs());
  const LostAssembly& left = after.history.last[0];
  CHECK(left.cause == cat("worker '", worker, "' is draining"));
  CHECK(left.culprit == worker);
  CHECK(left.recomputed() == 0);
  CHECK(left.source == RecoverySource::memory);
  CHECK(after.condition.restarts == 0);
  CHECK(after.condition.workers[1] != worker);
  const auto now = scene.runners(after);
  for (const size_t task : {0, 2}) {
    const std::string& stays = before.condition.workers[task];
    CHECK(after.condition.workers[task] == stays);
    CHECK(now.at(stays) == runners.at(stays));
  }
  check_end(scene, id, hash);
}

TEST_CASE("a job whose only worker drains is saved, waits, and goes on from there", "[faults]") {
  const Leave how = GENERATE(Leave::drain, Leave::term);
  JobScene scene(cluster_of(1));
  const Job job =
      scene.job(long_enough(1500), {"num_workers=1", "shards=2", "checkpoint.every_steps=100000"});
  const std::string hash = scene.expected(job);
  const std::string id = scene.submit(job);
  (void)scene.await_step(id, 60, 1);
  check_promised(leave(scene, "w0", how), kMoved);
  const JobView waits = must(scene.client().job(id));
  CHECK(waits.condition.state == JobState::recovering);
  CHECK_THAT(waits.condition.reason,
             Catch::StartsWith("worker 'w0' is draining; waits for 1 worker"));
  if (how == Leave::drain) {
    must(scene.client().drain("w0", true).status());
  } else {
    scene.cluster().start_worker(0);
  }
  const JobView after = scene.await(id, [](const JobView& view) {
    return !view.history.last.empty() && view.history.last[0].recovered_after >= 0;
  });
  CHECK(after.history.last[0].recomputed() == 0);
  CHECK(after.history.last[0].source == RecoverySource::checkpoint);
  check_end(scene, id, hash);
}

TEST_CASE("parameter servers move between two steps, too", "[faults]") {
  JobScene scene(cluster_of(4));
  const Job job = scene.job(long_enough(2000),
                            {"shards=3", "strategy={name: parameter_server, mode: sync, num_ps: 2}",
                             "checkpoint.every_steps=100000"});
  const std::string hash = scene.expected(job);
  const std::string id = scene.submit(job);
  const JobView before = scene.await_step(id, 60, 1);
  check_promised(leave(scene, before.condition.workers[1], Leave::drain), kMoved);
  const JobView after = scene.await(id, [](const JobView& view) {
    return !view.history.last.empty() && view.history.last[0].recovered_after >= 0;
  });
  CHECK(after.history.last[0].recomputed() == 0);
  check_end(scene, id, hash);
}

// A job on three workers, the first of which has the servers. Two replicas close a step.
Job quorum_job(const JobScene& scene, const std::string& more = "data.validation=null") {
  return scene.job(long_enough(20'000), {"shards=2", more, "checkpoint.every_steps=100000",
                                         "strategy={name: parameter_server, mode: sync, num_ps: 1, "
                                         "total_num_replicas: 3, replicas_to_aggregate: 2}"});
}

void check_taken_back(JobScene& scene, const std::string& id, const std::string& worker) {
  const JobView after = scene.await(id, [](const JobView& view) {
    return !view.history.last.empty() && view.history.last[0].recovered_after >= 0;
  });
  INFO(after.history.last[0].cause << scene.cluster().logs());
  CHECK(after.history.last[0].culprit == worker);
  CHECK(after.history.last[0].recomputed() == 0);
  CHECK(after.condition.restarts == 0);
  CHECK(after.condition.assembly == 2);
}

TEST_CASE("a quorum goes on without a backup worker, and takes it back at a fence", "[faults]") {
  JobScene scene(cluster_of(3));
  const std::string id = scene.submit(quorum_job(scene));
  const JobView before = scene.await_step(id, 60, 1);
  const std::string worker = before.condition.workers[2];
  scene.cluster().worker(worker).signal(SIGSTOP);
  const auto goes_on = [](const JobView& view) {
    return Catch::StartsWith("goes on though worker '").match(view.condition.reason);
  };
  const JobView without = scene.await(id, goes_on);
  CHECK(without.condition.state == JobState::running);
  const uint64_t then = without.progress.last.step;
  const JobView farther =
      scene.await(id, [&](const JobView& view) { return view.progress.last.step > then + 20; });
  CHECK(goes_on(farther));
  CHECK(farther.condition.assembly == 1);
  scene.cluster().worker(worker).signal(SIGCONT);
  check_taken_back(scene, id, worker);
  scene.cancel(id);
}

TEST_CASE("a backup worker whose runner is stopped costs a quorum no step", "[faults]") {
  JobScene scene(cluster_of(3));
  const std::string id = scene.submit(quorum_job(scene));
  const JobView before = scene.await_step(id, 60, 1);
  const std::string worker = before.condition.workers[1];
  ::kill(scene.runners(before).at(worker), SIGSTOP);
  check_taken_back(scene, id, worker);
  scene.cancel(id);
}

TEST_CASE("a quorum that lacks a worker where it evaluates is saved, and waits for another",
          "[faults]") {
  JobScene scene(cluster_of(3));
  const std::string id = scene.submit(quorum_job(scene, "seed=7"));
  const JobView before = scene.await_step(id, 60, 1);
  scene.cluster().worker(before.condition.workers[2]).signal(SIGKILL);
  (void)scene.await(id, [](const JobView& view) {
    return view.condition.reason.find("; waits for 3 workers") != std::string::npos;
  });
  scene.cluster().start_worker(2);
  const JobView after = scene.await(id, [](const JobView& view) {
    return !view.history.last.empty() && view.history.last.back().recovered_after >= 0;
  });
  INFO(scene.cluster().logs());
  for (const LostAssembly& each : after.history.last) CHECK(each.recomputed() == 0);
  CHECK(after.condition.restarts == 0);
  scene.cancel(id);
}

TEST_CASE("a drained worker stays drained through a restart of the master, and of itself",
          "[faults]") {
  JobScene scene(cluster_of(2));
  const auto state = [&] {
    for (const NodeView& node : must(scene.client().nodes())) {
      if (node.worker.info.worker.name == "w1") return node.worker.state;
    }
    return WorkerState::lost;
  };
  const Finished drained = scene.cluster().leat("nodes", {"drain", "w1"});
  INFO(drained.out << drained.err);
  CHECK(drained.exit_code == 0);
  CHECK(state() == WorkerState::draining);
  scene.cluster().restart_master(SIGKILL);
  CHECK(eventually([&] { return state() == WorkerState::draining; }, 20s * kSlowness, 50ms));
  scene.cluster().worker(1).stop();
  scene.cluster().start_worker(1);
  CHECK(eventually([&] { return state() == WorkerState::draining; }, 20s * kSlowness, 50ms));
  const std::string id = scene.submit(scene.job(100, {"num_workers=1", "shards=1"}));
  CHECK(scene.await_end(id).condition.workers == std::vector<std::string>{"w0"});
  CHECK(scene.cluster().leat("nodes", {"drain", "w7"}).exit_code != 0);
  CHECK(scene.cluster().leat("nodes", {"drain", "w1", "--undo"}).exit_code == 0);
  CHECK(state() == WorkerState::ready);
}

}  // namespace
}  // namespace leat
