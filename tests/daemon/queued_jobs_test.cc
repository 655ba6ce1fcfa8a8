// Jobs that are paused, make way, share a worker or run out of time, on real daemons: the weights
// must be those of one process.
#include <signal.h>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// A number of steps that a job does not finish before the test has acted on it.
constexpr uint64_t kManySteps = kSlowness == 1 ? 2000 : 500;

void check_end(JobScene& scene, const std::string& id, const std::string& hash) {
  const JobView end = scene.await_end(id);
  INFO(end.condition.reason << scene.cluster().logs());
  CHECK(end.condition.state == JobState::succeeded);
  CHECK(end.condition.result.weights_sha256 == hash);
  CHECK(end.condition.restarts == 0);
}

TEST_CASE("a paused job outlives a master, and goes on to the weights of one that nobody paused",
          "[minutes]") {
  JobScene scene(2);
  const Job job = scene.job(kManySteps, {"num_workers=2", "checkpoint.every_steps=1000000"});
  const std::string hash = scene.expected(job);
  const std::string id = scene.submit(job);
  (void)scene.await_step(id, 40, 1);
  const Finished paused = scene.cluster().leat("pause", {id, "--wait", "--timeout", "120s"});
  INFO(paused.err);
  CHECK(paused.exit_code == 0);
  CHECK(paused.out == id + " PAUSED\n");
  const JobView rests = must(scene.client().job(id));
  CHECK(rests.progress.last.checkpoint_step >= 40);
  CHECK(scene.cluster().await_no_runners());
  scene.cluster().restart_master(SIGKILL);
  REQUIRE(scene.cluster().await_ready(2));
  CHECK(must(scene.client().job(id)).condition.state == JobState::paused);
  CHECK(must(scene.client().pause(id)).condition.state == JobState::paused);

  const Finished resumed = scene.cluster().leat("resume", {id});
  CHECK(resumed.exit_code == 0);
  // It does no step again that it had done.
  const JobView runs = scene.await_step(id, 1, 2);
  CHECK(runs.progress.last.step >= rests.progress.last.checkpoint_step);
  check_end(scene, id, hash);
  CHECK(scene.metrics(id) == scene.expected_metrics());
}

TEST_CASE("a job that consents makes way for a more urgent one, and both get their weights",
          "[minutes]") {
  JobScene scene(1);
  const Job low = scene.job(kManySteps, {"num_workers=1", "preemptible=true"});
  const std::string hash = scene.expected(low);
  const std::string id = scene.submit(low);
  (void)scene.await_step(id, 40, 1);
  const std::string urgent = scene.submit(scene.job(20, {"num_workers=1", "priority=5", "seed=3"}));
  const JobView end = scene.await_end(urgent);
  CHECK(end.condition.state == JobState::succeeded);
  const JobView view = must(scene.client().job(id));
  CHECK_FALSE(has_ended(view.condition.state));
  CHECK(view.progress.last.checkpoint_step >= 40);
  check_end(scene, id, hash);
}

TEST_CASE("two jobs run at once on one worker, each on the cores of its share", "[minutes]") {
  ProcessClusterOptions options;
  options.threads = 2;
  JobScene scene(options);
  const std::string share = "resources_per_worker={cpu: 1, memory: 16MiB}";
  const Job job = scene.job(kManySteps, {"num_workers=1", share});
  const std::string hash = scene.expected(job);
  const std::string first = scene.submit(job), second = scene.submit(job);
  (void)scene.await_step(first, 1, 1);
  (void)scene.await_step(second, 1, 1);
  const auto nodes = must(scene.client().nodes());
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0].jobs == std::vector<std::string>{first, second});
  CHECK(scene.cluster().runners().size() == 2);
  const std::string third = scene.submit(job);
  const JobView waits = must(scene.client().job(third));
  CHECK(waits.condition.state == JobState::queued);
  CHECK_THAT(waits.condition.reason, Catch::Contains("waits for 1 worker, 0 free; '" + first));
  scene.cancel(third);
  check_end(scene, first, hash);
  check_end(scene, second, hash);
}

TEST_CASE("a job that has run as long as it may fails, and can be resumed") {
  JobScene scene(1);
  const std::string id = scene.submit([&] {
    Job job = scene.endless();
    job.num_workers = 1;
    job.queue.max_run_time = 1s;
    return job;
  }());
  const JobView end = scene.await_end(id);
  CHECK(end.condition.state == JobState::failed);
  CHECK_THAT(end.condition.reason,
             Catch::StartsWith("it ran for its max_run_time of 1s; leat submit --resume " + id));
  CHECK(end.progress.last.checkpoint_step > 0);
}

}  // namespace
}  // namespace leat
