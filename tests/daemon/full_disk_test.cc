// Trainings that meet a full disk, or are stopped at a checkpoint.
#include "devices/base/failpoint.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/small_models.h"

namespace leat {
namespace {

TEST_CASE("a job that is told to stop at a checkpoint writes it once, and goes on from it") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  Silent first;
  const TrainOutcome stopped =
      small.train(small.job(), "run", first, 1, false, [&] { return !first.checkpoints.empty(); });
  CHECK(stopped.interrupted);
  CHECK(first.checkpoints == std::vector<int64_t>{10});
  Silent second;
  CHECK(small.train(small.job(), "run", second, 1, true).weights_sha256 == expected);
  CHECK(second.first == 10);
}

TEST_CASE("a disk that is full for a while costs checkpoints, and neither the job nor a metric") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  Silent watch;
  int at_the_end = 0;
  // In the beginning, about the checkpoint of step 10, and at the end.
  const ScopedFailpoint full("files/append", [&](uint64_t pass) -> Status {
    const bool fails = pass == 1 || (watch.losses.size() >= 5 && watch.losses.size() < 15) ||
                       (watch.losses.size() == 30 && at_the_end++ < 3);
    return fails ? resource_exhausted("no space left") : Status();
  });
  CHECK(small.train(small.job(), "run", watch).weights_sha256 == expected);
  CHECK(watch.checkpoints == std::vector<int64_t>{20, 30});
  REQUIRE(watch.warnings.size() == 4);
  CHECK_THAT(watch.warnings[0], Catch::StartsWith("waits for room: no space left"));
  CHECK_THAT(watch.warnings[1], Catch::StartsWith("no checkpoint of step 10: "));
  CHECK_THAT(watch.warnings[2], Catch::StartsWith("no checkpoint of step 30: "));
  CHECK_THAT(watch.warnings[3], Catch::StartsWith("waits for room: no space left"));
  CHECK(contents_of(small.path("run/metrics.jsonl")) ==
        contents_of(small.path("twin/metrics.jsonl")));
}

}  // namespace
}  // namespace leat
