// Measures how a job recovers from a failure on real daemons: which runners stay, and how long it
// takes.
//
// LEAT_RECOVERIES=20 sets the number of recoveries of each kind.
#include <signal.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/environment_number.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr uint32_t kRecoveryTasks = 3;

int64_t now_ms() { return moment_of(RealClock()).wall_ms; }

enum class Kill { runner, worker, worker_with_a_spare };

// Returns, for each kill, the milliseconds from it to the first step after it, in ascending order.
std::vector<int64_t> recoveries(Kill what, int count) {
  JobScene scene(what == Kill::worker_with_a_spare ? 4 : 3);
  const Job job = scene.endless();
  std::vector<int64_t> times;
  std::string id;
  uint64_t assembly = 0;
  for (int i = 0; i < count; ++i) {
    if (i % 3 == 0) {  // as often as a job may recover
      if (!id.empty()) scene.cancel(id);
      id = scene.submit(job);
      assembly = 1;
    }
    const uint64_t begun = scene.await_step(id, 0, assembly).progress.last.step;
    const JobView before = scene.await_step(id, begun + 60, assembly);
    const auto runners = scene.runners(before);
    REQUIRE(runners.size() == kRecoveryTasks);
    const std::string victim = before.condition.workers[static_cast<size_t>(i) % kRecoveryTasks];
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
      return !lost.empty() && lost.back().assembly >= assembly && lost.back().recovered_after >= 0;
    });
    const LostAssembly& lost = after.history.last.back();
    times.push_back(lost.failed_ms + lost.recovered_after - killed);
    assembly = after.condition.assembly;
    INFO(scene.cluster().logs());
    CHECK(after.condition.restarts == before.condition.restarts + 1);
    const std::string& comes = after.condition.workers[static_cast<size_t>(i) % kRecoveryTasks];
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

TEST_CASE("a job goes on with those that are left, on the same processes") {
  const auto count = static_cast<int>(environment_number("LEAT_RECOVERIES", kSlowness > 1 ? 1 : 2));
  const std::map<Kill, const char*> kinds = {
      {Kill::runner, "a runner"},
      {Kill::worker, "a worker that is started again"},
      {Kill::worker_with_a_spare, "a worker, with a spare one"}};
  for (const auto& [kind, name] : kinds) {
    const auto times = recoveries(kind, count);
    std::cout << "from the kill of " << name << " to the next step: " << times[times.size() / 2]
              << " ms, at most " << times.back() << " (of " << times.size() << ")\n";
    check_promised(std::chrono::milliseconds(times.back()), std::chrono::seconds(5));
  }
}

TEST_CASE("a worker and a runner that were stopped and wake later disturb no job") {
  JobScene scene(4);
  const Job job = scene.job(kSlowness > 1 ? 1000 : 4000);
  const std::string id = scene.submit(job);
  const JobView before = scene.await_step(id, 120, 1);
  const auto runners = scene.runners(before);
  REQUIRE(runners.size() == kRecoveryTasks);
  const std::string victim = before.condition.workers[1];
  LeatdProcess& worker = scene.cluster().worker(ProcessCluster::number_of(victim));
  const pid_t stopped = runners.at(victim);
  worker.signal(SIGSTOP);
  ::kill(stopped, SIGSTOP);
  const JobView after = scene.await(id, [](const JobView& view) {
    return view.condition.assembly > 1 && view.condition.state == JobState::running;
  });
  ::kill(stopped, SIGCONT);
  worker.signal(SIGCONT);
  const JobView end =
      scene.await(id, [](const JobView& view) { return has_ended(view.condition.state); });
  INFO(end.condition.reason << scene.cluster().logs());
  CHECK(end.condition.state == JobState::succeeded);
  CHECK(end.condition.assembly == after.condition.assembly);
  CHECK(end.condition.result.weights_sha256 == scene.expected(job));
  CHECK(scene.cluster().await_ready(4));
  CHECK(scene.cluster().await_no_runners());
}

TEST_CASE("a job goes on after a signal that asks one of its runners to end") {
  JobScene scene(3);
  const Job job = scene.job(kSlowness > 1 ? 400 : 2000);
  const std::string hash = scene.expected(job);
  const std::string id = scene.submit(job);
  for (uint64_t assembly = 1; assembly <= 2; ++assembly) {
    const JobView before = scene.await_step(id, 60 * assembly, assembly);
    const int signal = assembly == 1 ? SIGTERM : SIGINT;
    ::kill(scene.runners(before).at(before.condition.workers[assembly]), signal);
    (void)scene.await(id, [&](const JobView& view) {
      return view.condition.assembly > assembly && view.condition.state == JobState::running;
    });
  }
  const JobView end = scene.await_end(id);
  INFO(end.condition.reason << scene.cluster().logs());
  CHECK(end.condition.state == JobState::succeeded);
  CHECK(end.condition.result.weights_sha256 == hash);
}

}  // namespace
}  // namespace leat
