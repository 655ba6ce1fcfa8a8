// Checkpoints that are asked for while a training runs.
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {

TEST_CASE("a checkpoint is written when it is asked for, and the training goes on") {
  const SmallJob small(kTinyCnn);
  const Job job = small.job({"checkpoint={every_steps: 1000}"});
  const std::string expected = small.hash(job, "plain");
  Silent watch;
  TrainOptions options{.folder = small.path("run"), .threads = 1};
  options.skip_checkpoints = false;
  // Asked for in step 5 and, twice, in step 12.
  options.checkpoints_asked = [&] {
    const size_t done = watch.losses.size();
    return uint64_t{done < 5 ? 0u : done < 12 ? 1u : 3u};
  };
  const auto trainer = must(small.trainer(job, options));
  const TrainOutcome outcome = must(trainer->run(watch, [] { return false; }));
  CHECK(outcome.weights_sha256 == expected);
  REQUIRE(watch.checkpoints.size() == 3);
  CHECK(watch.checkpoints[0] >= 5);
  CHECK(watch.checkpoints[0] < 30);
  CHECK(watch.checkpoints[1] >= 12);
  CHECK(watch.checkpoints[2] == 30);
}

}  // namespace leat
