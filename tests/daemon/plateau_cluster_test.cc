// A job on real daemons whose rate falls with the numbers of its epochs: a runner is killed after a
// fall, and the rates and the weights stay the same.
#include <signal.h>

#include "daemon/training/plateau.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"

namespace leat {
namespace {

TEST_CASE("a job that loses runners takes the rates of its epochs") {
  JobScene scene(3);
  const Job job = scene.job(
      900, {"lr_scheduler={name: plateau, monitor: val_loss, patience: 0, threshold: 0.3, "
            "factor: 0.5}"});
  const std::string weights = scene.expected(job);
  const std::string id = scene.submit(job);
  // Once behind a checkpoint, and once soon after the end of an epoch.
  uint64_t assembly = 1;
  for (const uint64_t step : {uint64_t{130}, uint64_t{420}}) {
    const JobView before = scene.await_step(id, step, assembly);
    const auto runners = scene.runners(before);
    REQUIRE(runners.size() == 3);
    ::kill(runners.begin()->second, SIGKILL);
    assembly = before.condition.assembly + 1;
  }
  const JobView end = scene.await_end(id);
  INFO(end.condition.reason << scene.cluster().logs());
  REQUIRE(end.condition.state == JobState::succeeded);
  CHECK(end.condition.restarts >= 1);
  CHECK(end.condition.result.weights_sha256 == weights);
  CHECK(scene.metrics(id) == scene.expected_metrics());
  // The rate has fallen, so that the log tells of it.
  Plateau plateau(job);
  for (const EpochResult& epoch : end.progress.epochs) plateau.take(epoch);
  CHECK(plateau.learning_rate() < job.optimizer.learning_rate * 0.3);
  // The workers of the last assembly have told how long they waited for rows.
  CHECK(end.progress.last.input_wait.size() == 3);
  CHECK(end.progress.last.steps_ahead.size() == 3);
}

}  // namespace
}  // namespace leat
