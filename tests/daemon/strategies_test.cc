// The conformance suite of strategies: every strategy of the catalogue, as its job file names it.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "devices/base/text.h"
#include "scheduler/strategies/strategy.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"

namespace leat {
namespace {

// A batch normalization in training needs sums over all shards in the forward pass, too.
constexpr const char* kModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_bn (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, use_bias = 0> (image)
  b1 = leat.BatchNorm (c1)
  a1 = Relu (b1)
  f = Flatten (a1)
  logits = leat.Dense <units = 4> (f)
}
)";

// The numbers of workers that a strategy takes: a graph without constraints gives the one replica
// no work for a second worker.
std::vector<int> sizes_of(const Strategy& strategy) {
  return strategy.one_replica ? std::vector<int>{1} : std::vector<int>{1, 2, 3, 4};
}

std::vector<std::string> settings(const Strategy& strategy, int workers) {
  return {cat("strategy=", strategy.name), cat("num_workers=", workers)};
}

TEST_CASE("every strategy gives the losses and the weights of one device", "[cluster]") {
  const SmallJob small(kModel);
  Silent expected;
  const TrainOutcome one = small.train(small.job({"strategy=single"}), "one", expected);
  for (const Strategy& strategy : all_strategies()) {
    for (const int workers : sizes_of(strategy)) {
      INFO("strategy " << strategy.name << ", workers " << workers);
      Silent watch;
      const TrainOutcome outcome = small.train(small.job(settings(strategy, workers)),
                                               cat(strategy.name, "-", workers), watch);
      CHECK(watch.losses == expected.losses);
      CHECK(outcome.weights_sha256 == one.weights_sha256);
      CHECK(outcome.validation->loss == one.validation->loss);
    }
  }
}

TEST_CASE("every strategy resumes from its checkpoint, on more workers and on fewer", "[cluster]") {
  const SmallJob small(kModel);
  const std::string expected = small.hash(small.job(), "whole");
  for (const Strategy& strategy : all_strategies()) {
    const std::vector<int> sizes = sizes_of(strategy);
    const std::set<std::pair<int, int>> moves{{sizes.front(), sizes.back()},
                                              {sizes.back(), sizes.front()}};
    for (const auto& [before, after] : moves) {
      INFO("strategy " << strategy.name << ", " << before << " workers, then " << after);
      const std::string folder = cat(strategy.name, "-", before, "-", after);
      Silent first, second;
      const TrainOutcome part = small.train(small.job(settings(strategy, before)), folder, first, 1,
                                            false, [&] { return first.losses.size() >= 13; });
      CHECK(part.interrupted);
      const TrainOutcome rest =
          small.train(small.job(settings(strategy, after)), folder, second, 1, true);
      CHECK(second.first == part.steps);
      CHECK(rest.weights_sha256 == expected);
    }
  }
}

TEST_CASE("a job of every strategy ends with the same weights though a runner is killed",
          "[cluster]") {
  const SmallJob small(kModel);
  ProcessCluster cluster(
      {.workers = 2, .data_path = small.path(), .master = {"--set", "chaos=true"}});
  for (const Strategy& strategy : all_strategies()) {
    INFO("strategy " << strategy.name);
    const int workers = std::min(2, sizes_of(strategy).back());
    Job job = small.job(settings(strategy, workers));
    const std::string expected = small.hash(job, cat("in-process-", strategy.name));
    job.data.root = "data";
    const std::string path = small.path(cat(strategy.name, ".yaml"));
    std::ofstream(path) << print_job(job);
    const auto view = nlohmann::json::parse(
        cluster.run_with_fault(path, cat("kill=runner:", workers - 1, "@step=15")));
    CHECK(view["weights_sha256"] == expected);
    CHECK(view["history"].size() == 1);
  }
}

}  // namespace
}  // namespace leat
