// Trains under many schedules of the emulated GPU. Every schedule of the fake is legal, so that a
// wait which is missing gives wrong weights for some. cuda_training_test.cc has an MLP, in less
// time.
#include <memory>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuJob;
using testing::kCnn;
using testing::kMlp;
using testing::kNormedCnn;
using testing::kTransformer;
using testing::PlainWay;

constexpr uint64_t kSeeds = 20;

// On 1, 2 and 4 workers, by graphs and by single launches. A checkpoint in between copies weights
// beside the steps.
void check_schedules(const char* graph) {
  const GpuJob gpu(graph);
  std::string expected;
  for (const int workers : {1, 2, 4}) {
    const Job job =
        gpu.small.job({cat("num_workers=", workers), "steps=5", "checkpoint={every_steps: 2}"});
    for (const bool graphs : {true, false}) {
      const auto way = graphs ? nullptr : std::make_unique<PlainWay>("graphs");
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        INFO("workers " << workers << ", graphs " << graphs << ", seed " << seed);
        const std::string folder = cat("w", workers, graphs ? "g" : "l", seed);
        const std::string hash =
            must(gpu.train(job, folder, {.seed = seed})).outcome.weights_sha256;
        if (expected.empty()) expected = hash;
        CHECK(hash == expected);
      }
    }
  }
}

}  // namespace

TEST_CASE("an MLP has the same weights in all schedules of a GPU", "[minutes]") {
  check_schedules(kMlp);
}

TEST_CASE("a CNN has the same weights in all schedules of a GPU", "[minutes]") {
  check_schedules(kCnn);
}

TEST_CASE("a CNN with batch normalization has so, too", "[minutes]") {
  check_schedules(kNormedCnn);
}

TEST_CASE("a small transformer has so, too", "[minutes]") { check_schedules(kTransformer); }

}  // namespace leat
