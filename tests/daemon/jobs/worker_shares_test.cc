// Jobs that lease shares of workers: which of them run at once, and which workers are free.
#include "tests/daemon/jobs/queue_scene.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

TEST_CASE("two jobs run at once on one worker in their shares") {
  QueueScene scene(0);
  scene.join_with("w1", 4);
  const std::string first = scene.run("first", 1, of_cores(2, uint64_t{4} << 30));
  const std::string second = scene.run("second", 1, of_cores(2));
  CHECK(scene.table->jobs_on("w1") == std::vector<std::string>{first, second});
  CHECK(scene.view(second).cores == 2);
  const std::string third = scene.submit("third", 1, of_cores(1));
  CHECK(scene.reason(third) ==
        cat("waits for 1 worker, 0 free; '", first, "' has 1, '", second, "' has 1"));
  const std::string large = scene.submit("large", 1, of_cores(8));
  CHECK_THAT(scene.reason(large), Catch::Contains("waits for 1 worker with 8 cores, 0 there"));
  const std::string whole = scene.submit("whole", 1);

  // One of them ends, and the other does not notice it.
  scene.finish(first);
  CHECK(scene.state(second) == "RUNNING");
  CHECK(scene.state(third) == "STARTING");
  scene.begin(third);
  CHECK(scene.state(whole) == "QUEUED");
  // The loss of the worker concerns both.
  scene.lose("w1");
  CHECK(scene.state(second) == "RECOVERING");
  CHECK(scene.state(third) == "RECOVERING");
  scene.join("w2");  // which offers no shares
  CHECK(scene.state(whole) == "STARTING");
  CHECK(scene.state(second) == "RECOVERING");
  scene.join_with("w3", 4);
  CHECK(scene.table->jobs_on("w3") == std::vector<std::string>{second, third});
}

TEST_CASE("a job with shares waits for another worker than those that it has") {
  QueueScene scene(0);
  scene.join_with("w1", 4);
  scene.join_with("w2", 4);
  const std::string id = scene.run("job", 2, of_cores(2));
  scene.lose("w2");
  scene.send(JobBroke{id, 1, unavailable("a peer is gone")});
  scene.tick(1s);
  CHECK(scene.state(id) == "RECOVERING");
  // The first worker has 2 cores left, and one runner of the job.
  CHECK_THAT(scene.reason(id), Catch::Contains("waits for 1 worker"));
  CHECK(scene.view(id).condition.assembly == 1);
  scene.join_with("w3", 2);
  CHECK(scene.view(id).condition.assembly == 2);
  CHECK(scene.view(id).condition.workers == std::vector<std::string>{"w1", "w3"});
  scene.begin(id);
}

TEST_CASE("an elastic job with shares does not grow onto a worker that it has") {
  QueueScene scene(0);
  scene.join_with("w1", 4);
  const std::string id = scene.run("job", 2, of_cores(2), 1);
  (void)scene.done();
  for (int i = 0; i < 10; ++i) scene.tick(1s);
  CHECK(scene.done() == "");
  scene.join_with("w2", 2);
  scene.tick(1s);
  CHECK(scene.done() == cat("yield ", id, " 1\n"));
}

TEST_CASE("a worker with room that a job is about to leave counts once") {
  QueueScene scene(0);
  scene.join_with("w1", 4);
  scene.join_with("w2", 4);
  const std::string full = scene.run("full", 1, [] {
    QueueTerms terms = of_cores(4);
    terms.preemptible = true;
    return terms;
  }());
  const std::string leaves = scene.run("leaves", 1, of_cores(2));
  CHECK(scene.view(leaves).condition.workers == std::vector<std::string>{"w2"});
  CHECK(scene.pause(leaves) == "ok PAUSING");
  (void)scene.done();
  QueueTerms terms = of_cores(2);
  terms.priority = 5;
  const std::string head = scene.submit("head", 2, terms);
  // The second worker has 2 cores for it, and the first one has to be left.
  CHECK(scene.done() == cat("save and yield ", full, " 1\n"));
  scene.come_to_fence(full, 70);
  scene.exit_all(full);
  CHECK(scene.state(head) == "STARTING");
}

}  // namespace
}  // namespace leat
