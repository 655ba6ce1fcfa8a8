// Whole trainings on runners that are reached over the wire: what comes out is what a cluster in
// one process gives.
#include <chrono>

#include "daemon/remote/remote_cluster.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_cnn.h"

namespace leat {
namespace {

using testing::RunnerTestCluster;
using testing::RunnerTestOptions;

std::unique_ptr<Cluster> cluster_of(RunnerTestCluster& nodes, uint32_t runners,
                                    const std::string& transport) {
  std::vector<std::shared_ptr<RemoteRunner>> remotes;
  for (uint32_t task = 0; task < runners; ++task) remotes.push_back(nodes.remote(task));
  RemoteClusterOptions options;
  options.cluster = {1, 2, 3};
  options.epoch = testing::kEpoch;
  options.transport = transport;
  return std::make_unique<RemoteCluster>(nodes.loop(), std::move(remotes), std::move(options));
}

}  // namespace

TEST_CASE("runners over the wire train to the weights of one process", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const std::string expected = small.hash(small.job(), "local");
  for (const char* transport : {"tcp", "shm"}) {
    for (const int runners : {1, 2, 3}) {
      INFO(transport << ", runners " << runners);
      RunnerTestOptions options;
      options.runners = runners;
      options.datasets = {{"small", small.path()}};
      RunnerTestCluster nodes(options);
      Job job = small.job({cat("num_workers=", runners)});
      job.data.root = "small";
      const auto trainer =
          must(small.trainer(job, {small.path(cat(transport, runners))},
                             cluster_of(nodes, static_cast<uint32_t>(runners), transport)));
      Silent watch;
      const TrainOutcome outcome = must(trainer->run(watch, [] { return false; }));
      CHECK(outcome.weights_sha256 == expected);
      CHECK(outcome.steps == 30);
      CHECK(watch.losses.size() == 30);
      CHECK(watch.checkpoints == std::vector<int64_t>{10, 20, 30});
    }
  }
}

}  // namespace leat
