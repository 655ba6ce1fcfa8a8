// Trains on hosts with an emulated GPU, whose schedules and failures the tests choose.
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda_emulation/fake_cublaslt.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/must.h"

namespace leat {

using testing::GpuJob;
using testing::GpuTraining;
using testing::kMlp;
using testing::PlainWay;

// Every schedule of the fake is legal, so a wait that is missing gives wrong weights for some.
TEST_CASE("the weights are the same in whatever order a GPU runs its operations") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"num_workers=2", "steps=6", "checkpoint={every_steps: 3}"});
  const std::string expected = must(gpu.train(job, "first")).outcome.weights_sha256;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    CHECK(must(gpu.train(job, cat("seed", seed), {.seed = seed})).outcome.weights_sha256 ==
          expected);
  }
}

TEST_CASE("a GPU that fails within a job is named") {
  GpuJob gpu(kMlp);
  const auto failed =
      gpu.train(gpu.small.job(), "failed",
                {.once_open = [] { fake_cuda::fail_launch(300, cudaErrorLaunchFailure); }});
  REQUIRE(!failed.ok());
  CHECK_THAT(failed.status().message(), Catch::Contains("gpu:0"));
  CHECK_THAT(failed.status().message(), Catch::Contains("cudaErrorLaunchFailure"));
}

TEST_CASE("steps are enqueued as graphs, and products by cuBLASLt") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.with_endless_epoch(gpu.small.job({"steps=12"}));
  const auto counted = [&](const char* folder) {
    const uint64_t products = fake_cublaslt::products();
    must(gpu.train(job, folder));
    return std::pair(fake_cuda::counts(), fake_cublaslt::products() - products);
  };
  const auto [as_graphs, some] = counted("graphs");
  CHECK(as_graphs.graph_launches > 12);
  CHECK(some > 0);
  {
    const PlainWay way("cublaslt,graphs");
    const auto [one_by_one, none] = counted("plain");
    CHECK(one_by_one.graph_launches == 0);
    CHECK(none == 0);
  }
  fake_cublaslt::hide(true);
  const auto [without, none] = counted("without");
  fake_cublaslt::hide(false);
  CHECK(without.graph_launches > 12);
  CHECK(none == 0);
}

TEST_CASE("a profile has the time that the GPU takes for each kernel") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"steps=6"});
  const GpuTraining alone = must(gpu.train(job, "alone"));
  CHECK(alone.outcome.profile.empty());
  const GpuTraining profiled = must(gpu.train(job, "profiled", {.profile = true}));
  const std::string& text = profiled.outcome.profile;
  INFO(text);
  CHECK_THAT(text, Catch::Contains("\nTime of the kernels on job:worker/task:0/gpu:0: ") ||
                       Catch::StartsWith("Time of the kernels on job:worker/task:0/gpu:0: "));
  CHECK_THAT(text, Catch::Contains("  Gemm float[6,24]"));
  // The updates of four variables are one launch.
  CHECK_THAT(text, Catch::Matches("[^]*  leat\\.ApplyMomentum  '[^']+' and 3 more  tiles 1\n[^]*"));
  CHECK_THAT(text, Catch::Contains(" 4  leat.ApplyMomentum\n"));
  CHECK_THAT(text, Catch::Contains("CPU time of the kernels on job:worker/task:0/cpu:0: "));
  CHECK(profiled.outcome.weights_sha256 == alone.outcome.weights_sha256);
}

TEST_CASE("no step copies memory that is not pinned, or allocates") {
  GpuJob gpu(kMlp);
  const auto job = [&](int steps) {
    return gpu.small.with_endless_epoch(
        gpu.small.job({cat("steps=", steps), "checkpoint={every_steps: 100}"}));
  };
  const Job few = job(4), more = job(12);
  must(gpu.train(few, "few"));
  const fake_cuda::Counts after_few = fake_cuda::counts();
  must(gpu.train(more, "more"));
  const fake_cuda::Counts after_more = fake_cuda::counts();
  CHECK(after_more.launches > after_few.launches);
  CHECK(after_more.unpinned_copies == after_few.unpinned_copies);
  CHECK(after_more.allocations == after_few.allocations);
}

}  // namespace leat
