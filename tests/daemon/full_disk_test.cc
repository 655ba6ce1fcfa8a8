// Trainings that meet a full disk, or are stopped at a checkpoint.
#include <fstream>
#include <iterator>

#include "devices/base/failpoint.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"

namespace leat {
namespace {

constexpr const char* kGraph = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  logits = leat.Dense <units = 4> (f)
}
)";

std::string metrics_of(const SmallJob& small, const std::string& folder) {
  std::ifstream in(small.path(folder + "/metrics.jsonl"));
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("a job that is told to stop at a checkpoint writes it once, and goes on from it") {
  const SmallJob small(kGraph);
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
  const SmallJob small(kGraph);
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
  CHECK(metrics_of(small, "run") == metrics_of(small, "twin"));
}

}  // namespace
}  // namespace leat
