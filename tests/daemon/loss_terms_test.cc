// A loss that is a sum of terms, and a loss of sequences with columns of lengths: both against
// PyTorch (tests/peers/loss_references.py).
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/recipe_scene.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr int64_t kTermRows = 24;

// Two outputs: the scores of three classes, and five numbers.
constexpr const char* kTwoOutputs = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,5] x) => (float[N,3] scores, float[N,5] numbers) {
  h = leat.Dense <activation = "tanh", units = 4> (x)
  z = leat.Dense <units = 8> (h)
  s = Constant <value = int64[2] {3, 5}> ()
  scores, numbers = Split <axis = 1> (z, s)
})";

constexpr const char* kSum =
    "[{name: cross_entropy, label_smoothing: 0.1}, "
    "{name: mse, as: numbers, output: numbers, labels: x, weight: 0.1}]";

// The losses and weights of 50 steps, to 1e-9.
void check_against_torch(const std::string& name, const std::vector<double>& losses,
                         const std::vector<double>& weights) {
  constexpr size_t kShownSteps[] = {0, 1, 2, 10, 30, 49};
  const auto expected = references("losses.txt");
  const auto check_each = [](double found, double wanted) {
    CHECK(std::abs(found - wanted) / std::max(1.0, std::abs(wanted)) < 1e-9);
  };
  REQUIRE(losses.size() == 50);
  for (size_t i = 0; i < std::size(kShownSteps); ++i)
    check_each(losses[kShownSteps[i]], expected.at(name + " losses")[i]);
  const auto& wanted = expected.at(name + " weights");
  REQUIRE(weights.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) check_each(weights[i], wanted[i]);
}

std::vector<nlohmann::json> rows_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST_CASE("a sum of losses is PyTorch's, with each term in the rows of metrics.jsonl") {
  const Tensor labels = class_labels({kTermRows}, 3);
  RecipeScene scene(kTwoOutputs, 8, kTermRows, &labels);
  scene.validate_on(kTermRows, labels);
  const std::vector<std::string> set{"metrics=[accuracy, f1]"};
  Silent watch;
  const TrainOutcome one = scene.small().train(scene.job(kSum, set), "one", watch);
  check_against_torch("sum", watch.losses, scene.weights("one"));
  for (const std::string& strategy :
       {std::string("mirrored"), std::string("{name: parameter_server, num_ps: 2}")}) {
    const Job job = scene.job(kSum, {set[0], "num_workers=3", cat("strategy=", strategy)});
    CHECK(scene.small().hash(job, job.strategy, 2) == one.weights_sha256);
  }
  const auto rows = rows_of(scene.small().path("one/metrics.jsonl"));
  const nlohmann::json &step = rows.at(0), &epoch = rows.at(4);
  const double first = step["loss_cross_entropy"], second = step["loss_numbers"];
  CHECK(std::abs(step["loss"].get<double>() - (first + 0.1 * second)) < 1e-15);
  REQUIRE(epoch["epoch"] == 1);
  const double val_first = epoch["val_loss_cross_entropy"], val_second = epoch["val_loss_numbers"];
  CHECK(epoch["val_loss"].get<double>() == val_first + 0.1 * val_second);
  CHECK(epoch["loss_numbers"].get<double>() > 0);
  CHECK(is_known(watch.results[0].number("val_f1")));
  CHECK(watch.results[0].number("val_loss_numbers") == val_second);
}

TEST_CASE("a sum of losses goes on after a stop as if there had been none") {
  const Tensor labels = class_labels({kTermRows}, 3);
  const RecipeScene scene(kTwoOutputs, 8, kTermRows, &labels);
  const Job job = scene.job(kSum, {"precision=float32"});
  Silent whole, begun, rest;
  const TrainOutcome expected = scene.small().train(job, "whole", whole);
  scene.small().train(job, "parts", begun, 1, false, [&] { return begun.losses.size() >= 6; });
  const TrainOutcome outcome = scene.small().train(job, "parts", rest, 1, true);
  CHECK(outcome.weights_sha256 == expected.weights_sha256);
  // The means of the epoch are of the steps before and after the stop.
  CHECK(rest.results.at(0).more == whole.results.at(1).more);
}

TEST_CASE("a sum of losses trains asynchronously, and with backup workers") {
  const Tensor labels = class_labels({kTermRows}, 3);
  const RecipeScene scene(kTwoOutputs, 8, kTermRows, &labels);
  const auto trained = [&](const std::string& folder, const std::vector<std::string>& strategy) {
    std::vector<std::string> set{"steps=120", "metrics=[accuracy, {name: top_k, k: 2}]",
                                 "data.validation={format: npy, files: {x: x.npy, labels: y.npy}}"};
    set.insert(set.end(), strategy.begin(), strategy.end());
    Silent watch;
    scene.small().train(scene.job(kSum, set), folder, watch);
    REQUIRE(watch.losses.size() == 120);
    // Single losses are of a batch each, and depend on what came in between.
    const auto mean = [&](size_t first) {
      const auto begin = watch.losses.begin() + static_cast<ptrdiff_t>(first);
      return std::accumulate(begin, begin + 20, 0.0) / 20;
    };
    CHECK(mean(100) < mean(0));
    REQUIRE(watch.last.mean_more.size() == 3);
    CHECK(watch.last.mean_more[0].name == "loss_cross_entropy");
    CHECK(watch.last.mean_more[2].name == "top_2");
    CHECK(watch.last.mean_more[2].value >= *watch.last.mean_accuracy);
    CHECK(watch.last.mean_more[2].value <= 1);
  };
  trained("async", {"strategy={name: parameter_server, mode: async}", "num_workers=2", "shards=1"});
  trained("quorum", {"strategy={name: parameter_server, replicas_to_aggregate: 2}", "num_workers=3",
                     "shards=2"});
}

TEST_CASE("the terms of a sum are told apart, and the file says how") {
  const Tensor labels = class_labels({kTermRows}, 3);
  const RecipeScene scene(kTwoOutputs, 8, kTermRows, &labels);
  const auto error_of = [&](const std::string& loss) {
    JobOverrides overrides;
    overrides.set = {cat("loss=", loss)};
    const auto job = parse_job(print_job(scene.job("cross_entropy")), "job.yaml", overrides);
    return std::string(job.status().message());
  };
  CHECK(error_of("[mse, l1]") == "");
  CHECK_THAT(error_of("[mse]"), Catch::Contains("expected a list of at least 2 terms, received 1"));
  CHECK_THAT(error_of("[mse, {name: mse, output: numbers}]"),
             Catch::Contains("expected terms of different names, received loss_mse again"));
  CHECK_THAT(error_of("[mse, {name: mse, as: 'a b'}]"),
             Catch::Contains("as: expected a name of letters, digits and '_'"));
  CHECK_THAT(error_of("[mse, {name: mse, as: scale}]"),
             Catch::Contains("as: expected another name than 'scale'"));
  CHECK_THAT(error_of("[mse, {name: output}]"), Catch::Contains("output: missing"));
  CHECK_THAT(error_of("{name: mse, weight: 2}"), Catch::Contains("weight: unknown key"));
  CHECK_THAT(error_of("{name: triplet, labels: x}"), Catch::Contains("is not a key of triplet"));
  CHECK_THAT(error_of("{name: mse, label_lengths: x}"), Catch::Contains("is not a key of mse"));
  CHECK_THAT(error_of("{name: ctc, ignore_index: -1, label_lengths: x}"),
             Catch::Contains("expected ignore_index or label_lengths, received both"));
  const Job job = scene.job(kSum);
  CHECK(must(parse_job(print_job(job), "job.yaml")) == job);
  const auto plan_of = [&](const std::string& loss) {
    const auto trainer =
        scene.small().trainer(scene.job(loss), {scene.small().path("refused"), false, 1});
    return std::string(trainer.status().message());
  };
  CHECK_THAT(plan_of("[cross_entropy, {name: mse, output: numbers, labels: z}]"),
             Catch::Contains("loss: expected a column 'z' in the data, which has x, labels"));
  CHECK_THAT(plan_of("[cross_entropy, {name: mse, output: number, labels: x}]"),
             Catch::Contains("output 'number': expected an output of the graph"));
}

TEST_CASE("an output is compared with an input as the model reads it") {
  // Bytes that the model reads divided by 255: its output is the input, so the loss is 0.
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,1,8,8] features) => (float[N,1,8,8] same, float[N,4] y) {
  same = Identity (features)
  f = Flatten (features)
  y = leat.Dense <units = 4> (f)
})");
  Silent watch;
  small.train(small.job({"loss=[{name: mse, output: same, labels: features}, "
                         "{name: cross_entropy, output: y}]",
                         "metrics=[]", "steps=3"}),
              "run", watch);
  REQUIRE(watch.last.mean_more.size() == 2);
  CHECK(watch.last.mean_more[0].name == "loss_mse");
  CHECK(watch.last.mean_more[0].value == 0);
  CHECK(watch.last.mean_more[1].value > 0);
}

TEST_CASE("a loss of sequences reads the lengths of outputs and labels from columns") {
  const Tensor labels = sequence_labels(kTermRows, 1, false);
  const std::string sequence =
      "  s = Constant <value = int64[3] {-1, 4, 3}> ()\n  y = Reshape (z, s)\n";
  const RecipeScene scene(two_layers(12, sequence, "4,3"), 12, kTermRows, &labels);
  Tensor of_outputs(DType::i32, Shape{kTermRows}), of_labels(DType::i64, Shape{kTermRows, 1});
  for (int64_t i = 0; i < kTermRows; ++i) {
    of_outputs.set(i, static_cast<double>(1 + i % 4));
    of_labels.set(i, static_cast<double>(i % 3));
  }
  must(write_npy(real_files(), scene.small().path("t.npy"), of_outputs));
  must(write_npy(real_files(), scene.small().path("l.npy"), of_labels));
  const std::string data =
      "data.train={format: npy, files: {x: x.npy, labels: y.npy, t: t.npy, l: l.npy}}";
  const std::string loss = "{name: ctc, zero_infinity: true, input_lengths: t, label_lengths: l}";
  Silent watch;
  const TrainOutcome one = scene.small().train(scene.job(loss, {data}), "one", watch);
  check_against_torch("ctc_lengths", watch.losses, scene.weights("one"));
  CHECK(scene.small().hash(scene.job(loss, {data, "num_workers=3"}), "three", 2) ==
        one.weights_sha256);
  // Without zero_infinity the rows that are too short make the loss infinite, which ends the job.
  const auto trainer = must(
      scene.small().trainer(scene.job("{name: ctc, input_lengths: t, label_lengths: l}", {data}),
                            {scene.small().path("infinite"), false, 1}));
  Silent short_rows;
  const auto failed = trainer->run(short_rows, [] { return false; });
  CHECK_THAT(std::string(failed.status().message()), Catch::Contains("is Infinity"));
}

TEST_CASE("labels of sequences are integers of one length, and classes of the output") {
  const std::string sequence =
      "  s = Constant <value = int64[3] {-1, 4, 3}> ()\n  y = Reshape (z, s)\n";
  const auto error_of = [&](const Tensor& labels, const std::string& loss) {
    const RecipeScene scene(two_layers(12, sequence, "4,3"), 12, kTermRows, &labels);
    const auto trainer =
        scene.small().trainer(scene.job(loss), {scene.small().path("refused"), false, 1});
    return std::string(trainer.status().message());
  };
  CHECK_THAT(error_of(noise({kTermRows, 2}, 0), "ctc"),
             Catch::Contains("'y.npy': expected rows of classes, integers [S]"));
  CHECK_THAT(error_of(sequence_labels(kTermRows, 1, true), "ctc"), Catch::Contains("-1"));
  CHECK(error_of(sequence_labels(kTermRows, 1, true), "{name: ctc, ignore_index: -1}") == "");
}

}  // namespace
}  // namespace leat
