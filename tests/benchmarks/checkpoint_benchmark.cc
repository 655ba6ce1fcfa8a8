// Measures the cost of checkpoints for a training: one every 20 steps against none, alternating, on
// runners as a worker starts them, driven by a trainer over the wire. Times are medians over
// trainings of the mean step. With --within, they are medians over both halves of each training,
// where every second stretch of 20 steps has the copying and the writing of a checkpoint, which is
// less sensitive to other load. A stretch begins a few steps before its checkpoint, because a step
// is reported some milliseconds after its end, but at once if the next one waits for a checkpoint.
// Prints one JSON object for each case on stdout.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/remote/remote_hosts.h"
#include "daemon/training/trainer.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/must.h"
#include "tests/run_tests.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using Clock = std::chrono::steady_clock;
using testing::RunnerTestCluster;
using testing::RunnerTestOptions;

constexpr int kWorkers = 2;
constexpr int64_t kEvery = 20;
constexpr size_t kBefore = 5;  // steps of a stretch before its checkpoint

struct Options {
  std::vector<std::string> models = {"cnn", "mlp"};
  std::vector<std::string> strategies = {"mirrored", "parameter_server"};
  int rounds = 5;
  double seconds = 4;  // of each training, roughly
  int threads = 1;     // of each runner
  bool quick = false;
  bool within = false;
} options;

struct Model {
  std::string name;
  const char* graph;
  int64_t batch;
};

// The network of configs/jobs/fashion_mnist_cnn.yaml, with 5 MB of variables including Adam's; and
// one whose checkpoints are large compared to its steps: 71 MB.
const Model kModels[] = {{"cnn", R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
cnn (float[N,1,28,28] image) => (float[N,10] logits) {
  c1 = leat.Conv2D <filters = 32, kernel = 3, activation = "relu"> (image)
  p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c1)
  c2 = leat.Conv2D <filters = 64, kernel = 3, activation = "relu"> (p1)
  p2 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c2)
  f = Flatten (p2)
  d1 = leat.Dense <units = 128, activation = "relu"> (f)
  d2 = leat.Dropout <rate = 0.25> (d1)
  logits = leat.Dense <units = 10> (d2)
}
)",
                          128},
                         {"mlp", R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
mlp (float[N,1,28,28] image) => (float[N,10] logits) {
  f = Flatten (image)
  h1 = leat.Dense <units = 3072, activation = "relu"> (f)
  h2 = leat.Dense <units = 2560, activation = "relu"> (h1)
  h3 = leat.Dense <units = 2816, activation = "relu"> (h2)
  logits = leat.Dense <units = 10> (h3)
}
)",
                          64}};

// Records the times at which steps were reported.
class Watch final : public TrainObserver {
 public:
  void started(int64_t, int64_t) override {}
  void epoch_begun(int64_t, int64_t, int64_t, int64_t) override {}
  void stepped(int64_t, const StepResult&) override { at.push_back(Clock::now()); }
  void epoch_ended(const EpochResult&) override {}
  void checkpointed(int64_t, const std::string&) override { ++checkpoints; }
  void warned(const std::string& message) override { std::cerr << message << "\n"; }
  void noted(const std::string&) override { ++left_out; }

  std::vector<Clock::time_point> at;
  int checkpoints = 0, left_out = 0;
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(static_cast<double>(values.size() - 1) * q)];
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class Bench {
 public:
  Bench(const Model& model, const std::string& strategy) : model_(model), strategy_(strategy) {
    std::ofstream(directory_ / "model.onnxtxt") << model.graph;
    const int64_t rows = options.quick ? 500 : 20'000;
    Tensor x(DType::u8, Shape{rows, 1, 28, 28}), y(DType::u8, Shape{rows});
    uint32_t noise = 1;
    for (uint8_t& element : x.span<uint8_t>())
      element = static_cast<uint8_t>((noise = noise * 1664525 + 1013904223) >> 26);
    for (int64_t i = 0; i < rows; ++i) y.data<uint8_t>()[i] = static_cast<uint8_t>(i % 10);
    must(write_npy(real_files(), directory_ / "x.npy", x));
    must(write_npy(real_files(), directory_ / "y.npy", y));
  }

  // Trains `steps` steps with a checkpoint every 2 * kEvery of them. Adds the time of a step to
  // `with`, for the stretches with a checkpoint, and to `without`, for the others.
  void train_by_turns(int64_t steps, Watch& watch, std::vector<double>& with,
                      std::vector<double>& without) {
    const std::vector<double> ms = train(steps, 2 * kEvery, watch);
    std::vector<double> halves[2];
    for (size_t i = 0; i < ms.size(); ++i) halves[i % 2].push_back(ms[i]);
    without.push_back(mean(halves[0]));
    with.push_back(mean(halves[1]));
  }

  // Trains `steps` steps. With `every` = 0 there are no checkpoints.
  //
  // RETURNS: the mean time of a step in each stretch except the first steps and the last, because
  // every rule waits for the checkpoint of the last step.
  std::vector<double> train(int64_t steps, int64_t every, Watch& watch) {
    RunnerTestOptions described;
    described.runners = kWorkers;
    described.threads = options.threads;
    described.processes = true;
    described.datasets = {{"data", directory_.path()}};
    RunnerTestCluster nodes(described);
    std::vector<std::shared_ptr<RemoteHost>> remotes;
    for (uint32_t task = 0; task < kWorkers; ++task) remotes.push_back(nodes.remote(task));
    RemoteHostsOptions remote;
    remote.cluster = {1, 2, 3};
    remote.assembly = testing::kAssembly;
    const auto trainer = must(Trainer::create(
        catalogue_, real_files(), job(steps, every), {directory_ / cat("run-", ++runs_)},
        make_remote_hosts(nodes.loop(), std::move(remotes), remote)));
    must(trainer->run(watch, [] { return false; }));
    must(real_files().remove_all(directory_ / cat("run-", runs_)));
    std::vector<double> ms;
    for (size_t end = 2 * kEvery - kBefore; end <= watch.at.size(); end += kEvery) {
      const auto took = watch.at[end - 1] - watch.at[end - 1 - kEvery];
      ms.push_back(std::chrono::duration<double, std::milli>(took).count() / kEvery);
    }
    return ms;
  }

 private:
  Job job(int64_t steps, int64_t every) const {
    JobOverrides overrides;
    if (every > 0) overrides.set.push_back(cat("checkpoint={every_steps: ", every, "}"));
    Job job = must(
        parse_job(cat("version: 1\nname: bench\nmodel: {graph: model.onnxtxt}\ndata:\n  root: ",
                      directory_.path(),
                      "\n  train: {format: npy, features: x.npy, labels: y.npy}\n  rescale: 0.004\n"
                      "loss: cross_entropy\nseed: 7\nshards: 4\nnum_workers: ",
                      kWorkers, "\nglobal_batch_size: ", model_.batch, "\nsteps: ", steps,
                      "\nstrategy: ", strategy_,
                      model_.name == "cnn" ? "\noptimizer: {name: adam, learning_rate: 0.001}\n"
                                           : "\noptimizer: {name: sgd, learning_rate: 0.01}\n"),
                  directory_ / "job.yaml", overrides));
    job.data.root = "data";
    return job;
  }

  const Catalogue catalogue_ = standard_catalogue();
  const Model& model_;
  const std::string strategy_;
  TemporaryDirectory directory_;
  int runs_ = 0;
};

void measure(const Model& model, const std::string& strategy) {
  Bench bench(model, strategy);
  int64_t steps = 2 * kEvery;
  if (!options.quick) {
    Watch watch;
    const std::vector<double> ms = bench.train(3 * kEvery, 0, watch);
    const auto most = static_cast<int64_t>(options.seconds * 1e3 / quantile(ms, 0));
    steps = std::clamp<int64_t>(most / kEvery, 3, 100) * kEvery;
  }
  std::vector<double> with, without;
  int checkpoints = 0, left_out = 0;
  for (int round = 0; round < options.rounds; ++round) {
    if (options.within) {
      Watch watch;
      bench.train_by_turns(steps / kEvery * 2 * kEvery, watch, with, without);
      checkpoints += watch.checkpoints;
      left_out += watch.left_out;
      continue;
    }
    for (const bool writes : {round % 2 == 0, round % 2 != 0}) {
      Watch watch;
      (writes ? with : without).push_back(mean(bench.train(steps, writes ? kEvery : 0, watch)));
      if (writes) checkpoints += watch.checkpoints;
      left_out += watch.left_out;
    }
  }
  JsonLine line;
  line.add("measure", "checkpoint").add("model", model.name).add("strategy", strategy);
  line.add("steps", steps * options.rounds).add("ms_without", quantile(without, 0.5));
  line.add("ms_with", quantile(with, 0.5));
  line.add("ratio", quantile(with, 0.5) / quantile(without, 0.5));
  line.add("ratio_of_quartiles", quantile(with, 0.25) / quantile(without, 0.25));
  line.add("checkpoints", checkpoints).add("left_out", left_out);
  std::cout << line.text() << std::flush;
}

TEST_CASE("the cost of checkpoints is measured") {
  const auto among = [](const std::vector<std::string>& all, const std::string& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (const Model& model : kModels) {
    if (!among(options.models, model.name)) continue;
    for (const std::string& strategy : options.strategies) measure(model, strategy);
  }
}

}  // namespace
}  // namespace leat

// The helpers of the runner's tests report errors through Catch, so the measurement is a test case.
int main(int count, char** arguments) {
  using leat::options;
  CLI::App app("The cost of a checkpoint every 20 steps for a training of two runners");
  app.add_option("--models", options.models, "cnn, mlp")->delimiter(',');
  app.add_option("--strategies", options.strategies)->delimiter(',');
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Of a training");
  app.add_option("--threads", options.threads, "Of each runner");
  app.add_flag("--within", options.within, "Stretches take turns, and not trainings");
  app.add_flag("--quick", options.quick, "A little of one case, to see that it runs");
  CLI11_PARSE(app, count, arguments);
  if (options.quick) {
    options.rounds = 1;
    options.models = {"cnn"};
    options.strategies = {"mirrored"};
  }
  return leat::run_tests(1, arguments);
}
