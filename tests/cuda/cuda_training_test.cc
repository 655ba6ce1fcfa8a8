// Trains on hosts with an emulated GPU. Hashes prove our kernels and the order of our work; what
// NVIDIA's libraries and a real GPU do with them, they cannot prove.
#include <algorithm>
#include <cmath>

#include "daemon/hosts/local_hosts.h"
#include "devices/base/text.h"
#include "devices/cuda/cuda_device.h"
#include "ops/catalogue.h"
#include "ops/cuda/cuda_kernels.h"
#include "tests/catch.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

using cuda::CudaDevice;

constexpr const char* kMlp = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
mlp (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  h = leat.Dense <units = 24> (f)
  a = Relu (h)
  d = leat.Dropout <rate = 0.25> (a)
  logits = leat.Dense <units = 4> (d)
}
)";

constexpr const char* kNormedCnn = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
cnn (float[N,1,8,8] image) => (float[N,4] logits) {
  c = leat.Conv2D <filters = 16, kernel = 3, use_bias = 0> (image)
  b = leat.BatchNorm (c)
  a = Relu (b)
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
  f = Flatten (p)
  logits = leat.Dense <units = 4> (f)
}
)";

// Four tokens, the quarters of an image, that attend to each other.
constexpr const char* kTransformer =
    R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
transformer (float[N,1,8,8] image) => (float[N,4] logits)
<int64[3] tokens = {0, 4, 16}>
{
  t = Reshape (image, tokens)
  e = leat.Dense <units = 12> (t)
  n = leat.LayerNorm (e)
  q = leat.Dense <units = 12> (n)
  k = leat.Dense <units = 12> (n)
  v = leat.Dense <units = 12> (n)
  kt = Transpose <perm = [0, 2, 1]> (k)
  s = MatMul (q, kt)
  p = Softmax <axis = -1> (s)
  a = MatMul (p, v)
  r = Add (e, a)
  g = Gelu (r)
  f = Flatten (g)
  logits = leat.Dense <units = 4> (f)
}
)";

// The standard ops, with a kernel of CUDA where there is one.
const Catalogue& gpu_catalogue() {
  static const Catalogue catalogue = [] {
    Catalogue all = standard_catalogue();
    cuda::add_cuda_kernels(all);
    return all;
  }();
  return catalogue;
}

struct GpuTraining {
  TrainOutcome outcome;
  std::vector<double> losses;
  std::vector<std::string> warnings;
  uint64_t launches = 0;
};

// A small job on hosts that have a GPU each; in this process, they share the one that is emulated.
class GpuJob {
 public:
  explicit GpuJob(const char* graph) : small(graph) {}

  Result<GpuTraining> train(const Job& job, const std::string& folder, uint64_t seed = 0,
                            bool resume = false,
                            const std::function<bool(const Silent&)>& stop = {},
                            const std::function<void()>& once_open = {},
                            bool skip_checkpoints = false) {
    fake_cuda::reset(seed);
    Status opened;
    auto hosts = make_local_hosts(static_cast<int>(job.num_workers), 1, real_files(), [&] {
      std::vector<std::unique_ptr<Device>> devices;
      auto device = CudaDevice::open(0);
      if (device.ok())
        devices.push_back(std::move(*device));
      else
        opened = device.status();
      return devices;
    });
    LEAT_RETURN_IF_ERROR(opened);
    if (once_open) once_open();
    TrainOptions options{small.path(folder), resume, 1};
    options.skip_checkpoints = skip_checkpoints;
    LEAT_ASSIGN_OR_RETURN(const auto trainer, Trainer::create(gpu_catalogue(), real_files(), job,
                                                              options, std::move(hosts)));
    Silent watch;
    GpuTraining training;
    LEAT_ASSIGN_OR_RETURN(training.outcome,
                          trainer->run(watch, [&] { return stop && stop(watch); }));
    training.losses = watch.losses;
    training.warnings = watch.warnings;
    training.launches = fake_cuda::counts().launches;
    return training;
  }

  const SmallJob small;
};

void check_near(const std::vector<double>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    INFO("step " << i);
    CHECK(std::abs(actual[i] - expected[i]) <= 1e-5 * std::max(1.0, std::abs(expected[i])));
  }
}

void check_hashes(const char* graph) {
  GpuJob gpu(graph);
  Silent watch;
  const Job one = gpu.small.job({"num_workers=1"});
  const TrainOutcome on_cpu = gpu.small.train(one, "cpu", watch);
  const GpuTraining first = must(gpu.train(one, "gpu1"));
  CHECK(first.launches > 0);
  check_near(first.losses, watch.losses);
  REQUIRE(on_cpu.validation.has_value());
  CHECK(*first.outcome.validation->accuracy == Approx(*on_cpu.validation->accuracy).margin(0.02));
  for (const int workers : {2, 4}) {
    INFO("workers " << workers);
    const Job job = gpu.small.job({cat("num_workers=", workers)});
    const GpuTraining more = must(gpu.train(job, cat("gpu", workers)));
    CHECK(more.outcome.weights_sha256 == first.outcome.weights_sha256);
    CHECK(more.losses == first.losses);
  }
}

}  // namespace

TEST_CASE("an MLP trains on GPUs to the same weights on 1, 2 and 4 workers") { check_hashes(kMlp); }

TEST_CASE("a CNN with batch normalization does so, too") { check_hashes(kNormedCnn); }

TEST_CASE("a small transformer does so, too") { check_hashes(kTransformer); }

// Every schedule of the fake is legal, so a wait that is missing gives wrong weights for some.
TEST_CASE("whatever a GPU does first, the weights are the same") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"num_workers=2", "steps=6", "checkpoint={every_steps: 3}"});
  const std::string expected = must(gpu.train(job, "first")).outcome.weights_sha256;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    CHECK(must(gpu.train(job, cat("seed", seed), seed)).outcome.weights_sha256 == expected);
  }
}

TEST_CASE("a job goes on from its checkpoint on GPUs") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"num_workers=2"});
  const GpuTraining whole = must(gpu.train(job, "whole"));
  const GpuTraining part = must(gpu.train(
      job, "parts", 0, false, [](const Silent& watch) { return watch.losses.size() >= 8; }));
  CHECK(part.outcome.interrupted);
  const GpuTraining rest = must(gpu.train(job, "parts", 3, true));
  CHECK(rest.outcome.weights_sha256 == whole.outcome.weights_sha256);
}

TEST_CASE("a checkpoint between two steps has the weights of that step") {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"num_workers=2", "checkpoint={every_steps: 4}"});
  const std::string expected = must(gpu.train(job, "whole")).outcome.weights_sha256;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    INFO("seed " << seed);
    const std::string folder = cat("passing", seed);
    const GpuTraining part = must(gpu.train(
        job, folder, seed, false, [](const Silent& watch) { return watch.losses.size() >= 14; }, {},
        true));
    CHECK(part.warnings.empty());
    CHECK(must(gpu.train(job, folder, seed, true)).outcome.weights_sha256 == expected);
  }
}

TEST_CASE("a GPU that fails within a job is named") {
  GpuJob gpu(kMlp);
  const auto failed = gpu.train(gpu.small.job(), "failed", 0, false, {},
                                [] { fake_cuda::fail_launch(300, cudaErrorLaunchFailure); });
  REQUIRE(!failed.ok());
  CHECK_THAT(failed.status().message(), Catch::Contains("gpu:0"));
  CHECK_THAT(failed.status().message(), Catch::Contains("cudaErrorLaunchFailure"));
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
