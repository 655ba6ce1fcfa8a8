// Trains on hosts with a GPU, the emulated one or a real one (deploy/gpu-check). On an emulated GPU
// hashes prove our kernels and the order of our work; what NVIDIA's libraries and a real GPU do
// with them, they cannot prove.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuJob;
using testing::GpuTraining;
using testing::kCnn;
using testing::kMlp;
using testing::kNormedCnn;
using testing::kTransformer;
using testing::PlainWay;

constexpr double kNear = 1e-5;
constexpr double kNearOf16Bits = 2e-2;

void check_near(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO("step " << i);
    CHECK(std::abs(actual[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
  }
}

void check_hashes(const char* name, const char* graph, const char* precision = "float32") {
  GpuJob gpu(graph);
  Silent watch;
  const double tolerance = std::string(precision) == "float32" ? kNear : kNearOf16Bits;
  const std::string computes = cat("precision=", precision);
  const Job one = gpu.small.job({"num_workers=1", "steps=12", computes});
  const TrainOutcome on_cpu = gpu.small.train(one, "cpu", watch);
  const GpuTraining first = must(gpu.train(one, "gpu1"));
  check_near(first.losses, watch.losses, tolerance);
  REQUIRE(on_cpu.validation.has_value());
  CHECK(*first.outcome.validation->accuracy == Approx(*on_cpu.validation->accuracy).margin(0.02));
  for (const int workers : {2, 4}) {
    INFO("workers " << workers);
    const Job job = gpu.small.job({cat("num_workers=", workers), "steps=12", computes});
    const GpuTraining more = must(gpu.train(job, cat("gpu", workers)));
    CHECK(more.outcome.weights_sha256 == first.outcome.weights_sha256);
    CHECK(more.losses == first.losses);
  }
  {
    // The same kernels, launched one by one.
    const PlainWay way("graphs");
    CHECK(must(gpu.train(one, "launches")).outcome.weights_sha256 == first.outcome.weights_sha256);
  }
  {
    // A launch for each variable.
    const PlainWay way("joined");
    CHECK(must(gpu.train(one, "single")).outcome.weights_sha256 == first.outcome.weights_sha256);
  }
  {
    const PlainWay way("cublaslt");
    check_near(must(gpu.train(one, "own")).losses, watch.losses, tolerance);
  }
  if (testing::gpu_is_emulated()) return;
  std::cout << R"({"training": ")" << name << R"(", "weights_sha256": ")"
            << first.outcome.weights_sha256 << R"(", "last_loss": )" << first.losses.back()
            << R"(, "last_loss_on_cpu": )" << watch.losses.back() << "}\n";
}

}  // namespace

TEST_CASE("an MLP trains on GPUs to the same weights on 1, 2 and 4 workers") {
  check_hashes("mlp", kMlp);
}

TEST_CASE("a CNN does so, too") { check_hashes("plain_cnn", kCnn); }

TEST_CASE("a CNN with batch normalization does so, too") { check_hashes("cnn", kNormedCnn); }

// Its images have their channels last.
TEST_CASE("a CNN in bfloat16 does so, too", "[minutes]") {
  check_hashes("cnn_bf16", kNormedCnn, "bfloat16");
}

TEST_CASE("a CNN in float16 does so, too", "[minutes]") {
  check_hashes("cnn_f16", kNormedCnn, "float16");
}

TEST_CASE("a small transformer does so, too") { check_hashes("transformer", kTransformer); }

TEST_CASE("a small transformer in bfloat16 does so, too", "[minutes]") {
  check_hashes("transformer_bf16", kTransformer, "bfloat16");
}

TEST_CASE("a job goes on from its checkpoint on GPUs") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"num_workers=2"});
  const GpuTraining whole = must(gpu.train(job, "whole"));
  const GpuTraining part = must(gpu.train(
      job, "parts", {.stop = [](const Silent& watch) { return watch.losses.size() >= 8; }}));
  CHECK(part.outcome.interrupted);
  const GpuTraining rest = must(gpu.train(job, "parts", {.seed = 3, .resume = true}));
  CHECK(rest.outcome.weights_sha256 == whole.outcome.weights_sha256);
}

TEST_CASE("a checkpoint between two steps has the weights of that step") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"num_workers=2", "checkpoint={every_steps: 4}"});
  const std::string expected = must(gpu.train(job, "whole")).outcome.weights_sha256;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    INFO("seed " << seed);
    const std::string folder = cat("passing", seed);
    const GpuTraining part =
        must(gpu.train(job, folder,
                       {.seed = seed,
                        .stop = [](const Silent& watch) { return watch.losses.size() >= 14; },
                        .skip_checkpoints = true}));
    CHECK(part.warnings.empty());
    CHECK(must(gpu.train(job, folder, {.seed = seed, .resume = true})).outcome.weights_sha256 ==
          expected);
  }
}

}  // namespace leat
