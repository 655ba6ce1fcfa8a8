// Trainings with on_nan: skip. A step whose loss or gradient is NaN must change nothing, wherever
// and however often it runs.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/skipping_job.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr int64_t kBlack = 77;
constexpr const char* kAdam = "optimizer={name: adam, learning_rate: 0.01}";

struct Metrics {
  std::string text;                    // without the timing
  std::vector<nlohmann::json> steps;   // the rows of steps
  std::vector<nlohmann::json> epochs;  // the rows of epochs
  std::vector<int64_t> skipped;        // the steps that were skipped

  Metrics(const SmallJob& small, const std::string& folder) {
    std::ifstream in(small.path(folder + "/metrics.jsonl"), std::ios::binary);
    text = without_timing(std::string(std::istreambuf_iterator<char>(in), {}));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      auto row = nlohmann::json::parse(line);
      if (!row.contains("epoch") && row["skipped"] == 1) skipped.push_back(row["step"]);
      (row.contains("epoch") ? epochs : steps).push_back(std::move(row));
    }
  }
};

Variables variables_after(const SmallJob& small, const std::string& folder, int64_t step) {
  const std::string path = small.path(cat(folder, "/checkpoints/", checkpoint_name(step)));
  return must(read_checkpoint(real_files(), path)).variables;
}

bool identical(const Variables& a, const Variables& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a) {
    if (b.count(name) == 0 || !value.identical(b.at(name))) return false;
  }
  return true;
}

// Checks that a skipped step changes no bit of weights, optimizer slots and running statistics, and
// that every other step changes some.
void check_changes(const SmallJob& small, const std::string& folder, const Metrics& metrics) {
  Variables before = variables_after(small, folder, 1);
  for (int64_t step = 2; step <= static_cast<int64_t>(metrics.steps.size()); ++step) {
    INFO("step " << step);
    const Variables after = variables_after(small, folder, step);
    CHECK(identical(before, after) ==
          (metrics.steps[static_cast<size_t>(step - 1)]["skipped"] == 1));
    before = after;
  }
  for (const auto& [name, value] : before) {
    INFO(name);
    for (int64_t i = 0; i < value.elements(); ++i) REQUIRE(std::isfinite(value.at(i)));
  }
}

TEST_CASE("a step whose loss is no number changes no weight, no slot and no statistic") {
  const SmallJob small(kDivided);
  blacken(small, kBlack);
  const std::string optimizer =
      GENERATE(as<std::string>{}, "optimizer={name: sgd, learning_rate: 0.05}", kAdam,
               "optimizer={name: sgd, learning_rate: 0.05, momentum: 0.9}",
               "optimizer={name: adamw, learning_rate: 0.01}");
  INFO(optimizer);
  const Job job = small.job({optimizer, "on_nan=skip", "checkpoint={every_steps: 1, keep: 40}"});
  Silent watch;
  const TrainOutcome outcome = small.train(job, "run", watch);
  const Metrics metrics(small, "run");
  // The black picture comes once in each epoch of 8 1/3 steps.
  REQUIRE((metrics.skipped.size() == 3 || metrics.skipped.size() == 4));
  REQUIRE(metrics.steps.size() == 30);
  CHECK(outcome.steps == 30);
  CHECK(outcome.skipped_steps == static_cast<int64_t>(metrics.skipped.size()));
  CHECK(watch.last.skipped_steps == outcome.skipped_steps);
  for (const auto& row : metrics.steps) CHECK((row["loss"] == "NaN") == (row["skipped"] == 1));
  CHECK(watch.warnings ==
        std::vector<std::string>{cat("step ", metrics.skipped[0],
                                     " was skipped: its loss is NaN; 1 step skipped so far")});
  check_changes(small, "run", metrics);
}

TEST_CASE("the mean over an epoch leaves out what was skipped") {
  const SmallJob small(kDivided);
  blacken(small, kBlack);
  Silent watch;
  small.train(small.job({"on_nan=skip"}), "run", watch);
  const Metrics metrics(small, "run");
  size_t step = 0;
  for (const auto& epoch : metrics.epochs) {
    double sum = 0;
    int trained = 0;
    for (; step < epoch["step"].get<size_t>(); ++step) {
      if (metrics.steps[step]["skipped"] == 1) continue;
      sum += static_cast<double>(metrics.steps[step]["loss"].get<float>());
      ++trained;
    }
    CHECK(epoch["loss"].get<double>() == sum / trained);
  }
}

TEST_CASE("a step whose gradient alone is no number is skipped") {
  const SmallJob small(kRooted);
  blacken(small, kBlack);
  const Job job =
      small.job({"on_nan=skip", "checkpoint={every_steps: 1, keep: 40}", "num_workers=2"});
  Silent watch;
  const TrainOutcome outcome = small.train(job, "run", watch);
  const Metrics metrics(small, "run");
  REQUIRE(outcome.skipped_steps >= 3);
  REQUIRE(outcome.skipped_steps <= 4);
  for (const auto& row : metrics.steps) CHECK(row["loss"].is_number());
  CHECK_THAT(watch.warnings.at(0), Catch::Contains("an update of it is not finite"));
  check_changes(small, "run", metrics);
}

TEST_CASE("steps are skipped alike on any workers, and when they are done once more", "[cluster]") {
  const SmallJob small(kDivided);
  blacken(small, kBlack);
  Silent watch;
  const TrainOutcome whole = small.train(small.job({"on_nan=skip", kAdam}), "whole", watch);
  const Metrics expected(small, "whole");
  REQUIRE(whole.skipped_steps >= 3);
  const std::string servers = "strategy={name: parameter_server, num_ps: 2}";
  for (const auto& [workers, strategy] : std::vector<std::pair<int, std::string>>{
           {2, "strategy=mirrored"}, {4, "strategy=mirrored"}, {2, servers}, {3, servers}}) {
    const std::string folder = cat("run-", workers, "-", strategy.size());
    INFO(workers << " workers, " << strategy);
    const Job job = small.job({"on_nan=skip", kAdam, strategy, cat("num_workers=", workers)});
    Silent other;
    const TrainOutcome outcome = small.train(job, folder, other);
    CHECK(outcome.weights_sha256 == whole.weights_sha256);
    CHECK(outcome.skipped_steps == whole.skipped_steps);
    CHECK(Metrics(small, folder).text == expected.text);
  }
  for (const int64_t around : {expected.skipped[0] - 1, expected.skipped[0], expected.skipped[1]}) {
    INFO("stopped after step " << around);
    const Job job = small.job({"on_nan=skip", kAdam, "num_workers=2"});
    const std::string folder = cat("stopped-", around);
    Silent first, second;
    small.train(job, folder, first, 1, false,
                [&] { return static_cast<int64_t>(first.losses.size()) >= around; });
    const TrainOutcome outcome = small.train(job, folder, second, 1, true);
    CHECK(second.first >= around);
    CHECK(outcome.weights_sha256 == whole.weights_sha256);
    CHECK(outcome.skipped_steps == whole.skipped_steps);
    CHECK(Metrics(small, folder).text == expected.text);
  }
}

TEST_CASE("a job that skips what is no number, and meets none, has the weights of any other") {
  const SmallJob small(kDivided);
  CHECK(small.hash(small.job({"on_nan=skip", "num_workers=2"}), "skips") ==
        small.hash(small.job({"num_workers=2"}), "fails"));
}

}  // namespace
}  // namespace leat
