// Trains on hosts that have an accelerator beside their CPU. The accelerator needs no GPU: it is a
// thread that works later, with a memory that the host cannot touch.
#include "daemon/hosts/local_hosts.h"
#include "devices/base/text.h"
#include "tests/async_device.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using testing::async_catalogue;
using testing::AsyncDevice;
using testing::AsyncDeviceOptions;

constexpr const char* kNormedModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
normed (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, use_bias = 0> (image)
  b1 = leat.BatchNorm (c1)
  a1 = Relu (b1)
  f = Flatten (a1)
  d = leat.Dropout <rate = 0.25> (f)
  logits = leat.Dense <units = 4> (d)
}
)";

// A small job that runs on hosts with accelerators.
class AcceleratedJob {
 public:
  explicit AcceleratedJob(const Catalogue& catalogue) : catalogue_(catalogue) {}

  // Trains to the end, or until `stop`.
  Result<TrainOutcome> train(
      const Job& job, const std::string& folder, Silent& watch,
      const AsyncDeviceOptions& options = {}, bool resume = false,
      const std::function<bool()>& stop = [] { return false; }) {
    uint64_t made = 0;
    auto hosts = make_local_hosts(static_cast<int>(job.num_workers), 1, real_files(), [&] {
      AsyncDeviceOptions own = options;
      own.seed += ++made;
      std::vector<std::unique_ptr<Device>> devices;
      devices.push_back(std::make_unique<AsyncDevice>(own));
      return devices;
    });
    TrainOptions train{small.path(folder), resume, 1};
    train.skip_checkpoints = false;
    LEAT_ASSIGN_OR_RETURN(const auto trainer,
                          Trainer::create(catalogue_, real_files(), job, train, std::move(hosts)));
    return trainer->run(watch, stop);
  }

  const SmallJob small{kNormedModel};

 private:
  const Catalogue& catalogue_;
};

std::vector<std::string> workers(int count, const std::string& strategy = "mirrored") {
  return {cat("strategy=", strategy), cat("num_workers=", count)};
}

}  // namespace

TEST_CASE("a job on accelerators ends with the weights of the CPUs") {
  const Catalogue catalogue = async_catalogue();
  AcceleratedJob accelerated(catalogue);
  Silent expected;
  const TrainOutcome cpu =
      accelerated.small.train(accelerated.small.job(workers(1)), "cpu", expected);
  const std::vector<int> counts = kSlowness > 1 ? std::vector{2} : std::vector{1, 2, 3};
  for (const std::string strategy : {"single", "mirrored", "parameter_server"}) {
    for (const int count : strategy == "single" ? std::vector{1} : counts) {
      INFO(strategy << ", workers " << count);
      Silent watch;
      const TrainOutcome outcome = must(accelerated.train(
          accelerated.small.job(workers(count, strategy)), cat(strategy, count), watch));
      CHECK(watch.losses == expected.losses);
      CHECK(outcome.weights_sha256 == cpu.weights_sha256);
      CHECK(outcome.validation->loss == cpu.validation->loss);
    }
  }
}

// Every schedule of the device is legal, so a wait that is missing gives wrong weights for some.
TEST_CASE("whenever an accelerator does its work, the weights are the same") {
  const Catalogue catalogue = async_catalogue();
  AcceleratedJob accelerated(catalogue);
  const Job job =
      accelerated.small.job({"num_workers=2", "steps=6", "checkpoint={every_steps: 3}"});
  const std::string expected = accelerated.small.hash(job, "cpu");
  for (uint64_t seed = 0; seed < 5; ++seed) {
    INFO("seed " << seed);
    AsyncDeviceOptions options;
    options.most_turns_given_way = 300;
    options.seed = 1000 * seed;
    Silent watch;
    CHECK(must(accelerated.train(job, cat("seed", seed), watch, options)).weights_sha256 ==
          expected);
  }
}

TEST_CASE("ops without a kernel on the accelerator run on the CPU beside it") {
  const Catalogue catalogue = async_catalogue({"Relu", "leat.ReluGrad", "leat.ApplyMomentum"});
  AcceleratedJob accelerated(catalogue);
  const Job job = accelerated.small.job(workers(2));
  Silent watch;
  CHECK(must(accelerated.train(job, "mixed", watch)).weights_sha256 ==
        accelerated.small.hash(job, "cpu"));
}

TEST_CASE("a job goes on from a checkpoint on accelerators, and back on CPUs") {
  const Catalogue catalogue = async_catalogue();
  AcceleratedJob accelerated(catalogue);
  const Job job = accelerated.small.job(workers(2));
  const std::string expected = accelerated.small.hash(job, "whole");
  Silent first, second, third;
  const TrainOutcome on_cpus = accelerated.small.train(job, "moved", first, 1, false,
                                                       [&] { return first.losses.size() >= 8; });
  CHECK(on_cpus.interrupted);
  const TrainOutcome on_accelerators = must(
      accelerated.train(job, "moved", second, {}, true, [&] { return second.losses.size() >= 9; }));
  CHECK(on_accelerators.interrupted);
  CHECK(second.first == on_cpus.steps);
  const TrainOutcome rest = accelerated.small.train(job, "moved", third, 1, true);
  CHECK(third.first == on_accelerators.steps);
  CHECK(rest.weights_sha256 == expected);
}

TEST_CASE("a job whose accelerator fails ends with an error that names the device") {
  const Catalogue catalogue = async_catalogue();
  AcceleratedJob accelerated(catalogue);
  AsyncDeviceOptions options;
  options.failing_work = 2000;
  Silent watch;
  const auto failed = accelerated.train(accelerated.small.job(), "failed", watch, options);
  REQUIRE(!failed.ok());
  CHECK(failed.status().code() == Code::unavailable);
  CHECK_THAT(failed.status().message(), Catch::Contains("gpu:0: the device failed"));
}

TEST_CASE("a job that does not fit its accelerator is refused before its first step") {
  const Catalogue catalogue = async_catalogue();
  AcceleratedJob accelerated(catalogue);
  AsyncDeviceOptions options;
  options.memory_bytes = 1024;
  Silent watch;
  const auto refused = accelerated.train(accelerated.small.job(), "small", watch, options);
  CHECK(refused.status().code() == Code::resource_exhausted);
  CHECK_THAT(refused.status().message(), Catch::Contains("gpu:0"));
  CHECK(watch.losses.empty());
}

}  // namespace leat
