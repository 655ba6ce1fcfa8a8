// How a job goes on after a failure, on real daemons: who stays, and how long it takes.
//
// LEAT_RECOVERIES=20 measures so many of each kind.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

#include "daemon/job/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/small_client.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kTasks = 3;
constexpr auto kPatience = 60s * kSlowness;
constexpr auto kLook = 10ms;

int64_t now_ms() { return moment_of(RealClock()).wall_ms; }

class Scene {
 public:
  explicit Scene(int workers)
      : small_(kTinyCnn), cluster_({.workers = workers, .data_path = small_.path()}) {
    client_ = client_of(cluster_.master());
    REQUIRE(cluster_.await_ready(workers));
  }

  // With a checkpoint every 50 steps.
  Job job(uint64_t steps) const {
    return small_.job(
        {cat("num_workers=", kTasks), cat("steps=", steps), "checkpoint.every_steps=50"});
  }
  Job endless() const { return small_.with_endless_epoch(job(1'000'000)); }
  std::string expected(const Job& job) { return small_.hash(job, "in-process"); }

  std::string submit(Job job) {
    return must(client_->submit(request_of(small_, std::move(job)))).id;
  }
  template <typename Is>
  JobView await(const std::string& id, const Is& is) {
    JobView view = must(client_->job(id));
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!is(view)) {
      INFO(name_of(view.condition.state) << " " << view.condition.reason << cluster_.logs());
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      view = must(client_->watch(id, view.version, 200ms));
    }
    return view;
  }
  JobView await_step(const std::string& id, uint64_t step, uint64_t epoch) {
    return await(id, [&](const JobView& view) {
      return view.condition.state == JobState::running && view.condition.epoch == epoch &&
             view.progress.last.step >= step;
    });
  }
  void cancel(const std::string& id) { must(client_->cancel(id).status()); }

  // The runner's process of each worker, by the worker's name.
  std::map<std::string, pid_t> runners(const JobView& view) {
    std::map<std::string, pid_t> all;
    for (const std::string& worker : view.condition.workers) {
      const auto children = children_of(cluster_.worker(worker).pid());
      if (children.size() == 1) all[worker] = children[0];
    }
    return all;
  }
  ProcessCluster& cluster() { return cluster_; }

 private:
  const SmallJob small_;
  ProcessCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
};

enum class Kill { runner, worker, worker_with_a_spare };

// Milliseconds from a kill until the first step that was done after it, in order.
std::vector<int64_t> recoveries(Kill what, int count) {
  Scene scene(what == Kill::worker_with_a_spare ? 4 : 3);
  const Job job = scene.endless();
  std::vector<int64_t> times;
  std::string id;
  uint64_t epoch = 0;
  for (int i = 0; i < count; ++i) {
    if (i % 3 == 0) {  // as often as a job may recover
      if (!id.empty()) scene.cancel(id);
      id = scene.submit(job);
      epoch = 1;
    }
    const uint64_t begun = scene.await_step(id, 0, epoch).progress.last.step;
    const JobView before = scene.await_step(id, begun + 60, epoch);
    const auto runners = scene.runners(before);
    REQUIRE(runners.size() == kTasks);
    const std::string victim = before.condition.workers[static_cast<size_t>(i) % kTasks];
    const int number = ProcessCluster::number_of(victim);
    const int64_t killed = now_ms();
    if (what == Kill::runner) {
      ::kill(runners.at(victim), SIGKILL);
    } else {
      scene.cluster().worker(number).signal(SIGKILL);
      if (what == Kill::worker) scene.cluster().start_worker(number);
    }
    const JobView after = scene.await(id, [&](const JobView& view) {
      const auto& lost = view.history.last;
      return !lost.empty() && lost.back().epoch >= epoch && lost.back().recovered_after >= 0;
    });
    const LostEpoch& lost = after.history.last.back();
    times.push_back(lost.failed_ms + lost.recovered_after - killed);
    epoch = after.condition.epoch;
    INFO(scene.cluster().logs());
    CHECK(after.condition.restarts == before.condition.restarts + 1);
    const std::string& comes = after.condition.workers[static_cast<size_t>(i) % kTasks];
    CHECK((comes == victim) == (what != Kill::worker_with_a_spare));
    const auto now = scene.runners(after);
    for (const auto& [worker, process] : runners) {
      if (worker != victim) CHECK(now.at(worker) == process);
    }
    if (what == Kill::worker_with_a_spare) scene.cluster().start_worker(number);
    REQUIRE(scene.cluster().await_ready(what == Kill::worker_with_a_spare ? 4 : 3));
  }
  scene.cancel(id);
  std::sort(times.begin(), times.end());
  return times;
}

TEST_CASE("a job goes on with those that are left within 5 s, on the same processes") {
  const char* text = std::getenv("LEAT_RECOVERIES");
  const int count = text == nullptr ? 2 : std::atoi(text);
  const std::map<Kill, const char*> kinds = {
      {Kill::runner, "a runner"},
      {Kill::worker, "a worker that is started again"},
      {Kill::worker_with_a_spare, "a worker, with a spare one"}};
  for (const auto& [kind, name] : kinds) {
    const auto times = recoveries(kind, count);
    std::cout << "from the kill of " << name << " to the next step: " << times[times.size() / 2]
              << " ms, at most " << times.back() << " (of " << times.size() << ")\n";
    CHECK(times.back() < 5000 * kSlowness);
  }
}

TEST_CASE("a worker and a runner that were stopped and wake later disturb nobody") {
  Scene scene(4);
  const Job job = scene.job(4000);
  const std::string id = scene.submit(job);
  const JobView before = scene.await_step(id, 120, 1);
  const auto runners = scene.runners(before);
  REQUIRE(runners.size() == kTasks);
  const std::string victim = before.condition.workers[1];
  LeatdProcess& worker = scene.cluster().worker(victim);
  const pid_t stopped = runners.at(victim);
  worker.signal(SIGSTOP);
  ::kill(stopped, SIGSTOP);
  const JobView after = scene.await(id, [](const JobView& view) {
    return view.condition.epoch > 1 && view.condition.state == JobState::running;
  });
  ::kill(stopped, SIGCONT);
  worker.signal(SIGCONT);
  const JobView end =
      scene.await(id, [](const JobView& view) { return has_ended(view.condition.state); });
  INFO(end.condition.reason << scene.cluster().logs());
  CHECK(end.condition.state == JobState::succeeded);
  CHECK(end.condition.epoch == after.condition.epoch);
  CHECK(parse_result(end.condition.result).weights_sha256 == scene.expected(job));
  CHECK(scene.cluster().await_ready(4));
  CHECK(scene.cluster().await_no_runners());
}

}  // namespace
}  // namespace leat
