// Each metric against torchmetrics and scikit-learn, on rows that no batch divides. The references
// are those of tests/peers/loss_references.py.
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/training/best_epoch.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/differences.h"
#include "tests/daemon/recipe_scene.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr int64_t kMetricRows = 37;

// Multiplies the output of the last layer, and may apply an op to it.
std::string output_times(int factor, const std::string& op = "") {
  const std::string made = op.empty() ? "y" : "t";
  const std::string last = op.empty() ? "" : cat("  y = ", op, " (t)\n");
  return cat("  f = Constant <value = float {", factor, "}> ()\n  ", made, " = Mul (z, f)\n", last);
}

// Trains a step that changes nothing, and compares the validation after it.
void compare_metrics(const std::string& kind, int64_t units, const std::string& end,
                     const std::string& output, const std::string& loss, const Tensor& labels,
                     const std::string& metrics) {
  const auto expected = references("metrics.txt");
  std::vector<NamedNumber> first;
  // A model with a fixed batch of 4 rows takes 12 rows a step on 3 shards; one without takes all.
  for (const std::string batch : {"4", "N"}) {
    for (const int workers : {1, 3}) {
      INFO(kind << ", batch " << batch << ", workers " << workers);
      RecipeScene scene(two_layers(units, end, output, batch), units, kMetricRows, &labels);
      scene.validate_on(kMetricRows, labels);
      const Job job = scene.job(
          loss, {cat("metrics=", metrics), "steps=1", "global_batch_size=12",
                 "optimizer={name: sgd, learning_rate: 1e-15}", cat("num_workers=", workers)});
      Silent watch;
      const TrainOutcome outcome = scene.small().train(job, "run", watch);
      auto found = outcome.validation->metrics;
      if (outcome.validation->accuracy)
        found.push_back({"accuracy", *outcome.validation->accuracy});
      for (const NamedNumber& each : found) {
        INFO(each.name);
        const double difference = std::abs(each.value - expected.at(cat(kind, " ", each.name))[0]);
        CHECK(difference < 1e-6);
        if (workers == 1 && batch == "N")
          note_difference("metric", cat(each.name, " of ", kind), difference);
      }
      // To the bit for any number of workers.
      if (workers == 1) first = found;
      CHECK(found == first);
      // The epoch of the only step ends with it.
      REQUIRE(watch.results.size() == 1);
      for (const NamedNumber& each : outcome.validation->metrics)
        CHECK(watch.results[0].number("val_" + each.name) == each.value);
      if (metrics.find("confusion_matrix") == std::string::npos) continue;
      const auto confusion = expected.find(kind + " confusion");
      REQUIRE(confusion != expected.end());
      CHECK(outcome.validation->confusion == confusion->second);
      const auto file =
          must(read_file(real_files(), cat(scene.small().path("run/"), kConfusionMatrix), 1 << 16));
      const auto json = nlohmann::json::parse(
          std::string_view(reinterpret_cast<const char*>(file.data()), file.size()));
      CHECK(json["matrix"].size() == json["classes"].get<size_t>());
      CHECK(json["matrix"][0][1].get<double>() == confusion->second[1]);
      CHECK(json["step"] == 1);
    }
  }
}

constexpr const char* kOfDecisions =
    "accuracy, precision, recall, f1, iou, matthews, confusion_matrix";

TEST_CASE("the metrics of classes are those of torchmetrics and scikit-learn") {
  const std::string micro =
      "{name: precision, average: micro}, {name: recall, average: micro}, {name: f1, average: "
      "micro}";
  compare_metrics("classes", 4, output_times(3), "4", "{name: cross_entropy, ignore_index: -100}",
                  with_ignored(class_labels({kMetricRows}, 4)),
                  cat("[", kOfDecisions, ", ", micro,
                      ", {name: top_k, k: 2}, perplexity, auc, {name: auc, exact: true}]"));
}

TEST_CASE("the metrics of pixels count every pixel") {
  const std::string pixels =
      "  s = Constant <value = int64[3] {-1, 3, 4}> ()\n  y = Reshape (z, s)\n";
  compare_metrics("pixels", 12, pixels, "3,4", "cross_entropy", class_labels({kMetricRows, 4}, 3),
                  "[iou, {name: top_k, k: 2}]");
}

TEST_CASE("the metrics of binary labels are those of class 1") {
  compare_metrics(
      "binary", 3, output_times(2), "3", "binary_cross_entropy",
      as_numbers(class_labels({kMetricRows, 3}, 2)),
      cat("[", kOfDecisions, ", {name: auc, thresholds: 50}, {name: auc, exact: true}]"));
}

TEST_CASE("equal scores count half in an exact area under the curve") {
  const std::string coarse =
      "  f = Constant <value = float {4}> ()\n  t = Mul (z, f)\n  r = Round (t)\n"
      "  half = Constant <value = float {0.5}> ()\n  y = Mul (r, half)\n";
  compare_metrics("ties", 3, coarse, "3", "binary_cross_entropy",
                  as_numbers(class_labels({kMetricRows, 3}, 2)), "[{name: auc, exact: true}]");
}

TEST_CASE("the metrics of probabilities are those of the logits before them") {
  compare_metrics("binary", 3, output_times(2, "Sigmoid"), "3",
                  "{name: binary_cross_entropy, from_logits: false}",
                  as_numbers(class_labels({kMetricRows, 3}, 2)),
                  "[accuracy, f1, {name: auc, thresholds: 50}]");
  compare_metrics("classes", 4, output_times(3, "Softmax"), "4",
                  "{name: cross_entropy, from_logits: false, ignore_index: -100}",
                  with_ignored(class_labels({kMetricRows}, 4)),
                  "[accuracy, f1, perplexity, auc, {name: top_k, k: 2}]");
}

TEST_CASE("the metrics of numbers are those of torchmetrics and scikit-learn") {
  compare_metrics("values", 3, "", "3", "mse", noise({kMetricRows, 3}, 5000, 2),
                  "[mae, mse, rmse, r2]");
}

TEST_CASE("a class that neither labels nor predictions have does not count") {
  compare_metrics("absent", 4,
                  "  m = Constant <value = float[4] {1, 1, 1, 0}> ()\n"
                  "  b = Constant <value = float[4] {0, 0, 0, -50}> ()\n"
                  "  k = Mul (z, m)\n  y = Add (k, b)\n",
                  "4", "cross_entropy", class_labels({kMetricRows}, 2), "[f1]");
}

TEST_CASE("the metrics of text are those of torchmetrics") {
  Tensor labels = class_labels({kMetricRows, 6}, 4);
  for (int64_t i = 0; i < labels.elements(); i += 7) labels.set(i, -100);
  const std::string shaped =
      "  f = Constant <value = float {2}> ()\n  t = Mul (z, f)\n"
      "  s = Constant <value = int64[3] {-1, 6, 4}> ()\n  y = Reshape (t, s)\n";
  const std::string of_text = "edit_distance, exact_match, cer, {name: wer, separator: 0}";
  compare_metrics("text", 24, shaped, "6,4", "{name: cross_entropy, ignore_index: -100}", labels,
                  cat("[", of_text,
                      ", bits_per_token, {name: bits_per_byte, bytes_per_token: "
                      "3.5}]"));
  compare_metrics("pairs", 4,
                  "  s = Constant <value = int64[3] {-1, 2, 2}> ()\n  y = Reshape (z, s)\n", "2,2",
                  "cross_entropy", class_labels({kMetricRows, 2}, 2), "[exact_match]");
  const std::string path =
      "  s = Constant <value = int64[3] {-1, 4, 3}> ()\n  y = Reshape (z, s)\n";
  compare_metrics("ctc", 12, path, "4,3", "{name: ctc, blank: 2, ignore_index: -1}",
                  sequence_labels(kMetricRows, 0, true), cat("[", of_text, "]"));
}

TEST_CASE("a metric of sequences is refused beside numbers as labels") {
  for (const char* name : {"edit_distance", "exact_match", "cer", "wer"}) {
    const Status refused = MetricSpec::of(name).check_fits(LossSpec::of("mse"));
    CHECK(refused.message() == cat(name,
                                   ": expected a loss of classes or of sequences, received "
                                   "mse, which has numbers as labels"));
  }
  LossSpec soft = LossSpec::of("cross_entropy");
  soft.settings.set("soft_labels", 1);
  CHECK_THAT(std::string(MetricSpec::of("bits_per_byte").check_fits(soft).message()),
             Catch::Contains("which has soft labels"));
}

TEST_CASE("a metric of too many numbers is refused before the job trains") {
  const Tensor labels = class_labels({kMetricRows}, 4);
  RecipeScene scene(two_layers(1025, "", "1025"), 1025, kMetricRows, &labels);
  scene.validate_on(kMetricRows, labels);
  const Job job = scene.job("cross_entropy", {"metrics=[confusion_matrix]"});
  const auto trainer = must(scene.small().trainer(job, {scene.small().path("refused"), false, 1}));
  Silent watch;
  const auto refused = trainer->run(watch, [] { return false; });
  CHECK_THAT(std::string(refused.status().message()),
             Catch::Contains("confusion_matrix: expected at most 1048576 numbers for all classes, "
                             "received 1050625"));
  CHECK(watch.losses.empty());
}

TEST_CASE("an exact area over too many rows is refused before the job trains") {
  // 2^25 numbers are those of 16,777,216 rows of a score and a label.
  const Tensor labels = as_numbers(class_labels({kMetricRows, 1}, 2));
  RecipeScene scene(two_layers(1, "", "1"), 1, kMetricRows, &labels);
  const auto refusal = [&](int64_t rows) {
    const Job job = scene.job(
        "binary_cross_entropy",
        {"metrics=[{name: auc, exact: true}]",
         cat("data.validation={format: synthetic, rows: ", rows,
             ", columns: {x: [5], labels: {shape: [1], distribution: integers, low: 0, high: 2}}}"),
         "data.train={format: synthetic, rows: 12, columns: {x: [5], labels: {shape: [1]}}}"});
    const auto trainer = must(scene.small().trainer(job, {scene.small().path("many"), false, 1}));
    Silent watch;
    const auto refused = trainer->run(watch, [] { return true; });
    CHECK(watch.losses.empty());
    return std::string(refused.status().message());
  };
  CHECK_THAT(refusal(1 << 25), Catch::Contains("auc: exact: expected at most 33554432 numbers"));
  CHECK(refusal(1 << 20) == "");
}

TEST_CASE("each training step has the values of metrics that are means of its rows") {
  const Tensor labels = noise({kMetricRows, 3}, 5000, 2);
  RecipeScene scene(two_layers(3, "", "3"), 3, kMetricRows, &labels);
  Silent watch;
  scene.validate_on(kMetricRows, labels);
  scene.small().train(scene.job("mse", {"metrics=[mse, mae]", "num_workers=3"}), "run", watch);
  REQUIRE(watch.last.mean_more.size() == 2);
  CHECK(watch.last.mean_more[0].name == "mse");
  CHECK(std::abs(watch.last.mean_more[0].value - watch.last.mean_loss) < 1e-12);
  CHECK(watch.last.mean_more[1].value > 0);
  CHECK(watch.results[0].number("mse") == Approx(watch.results[0].loss));
  CHECK(is_known(watch.results[0].number("val_mae")));
}

TEST_CASE("a class that nothing has does not count in a mean of classes") {
  const auto finish = [](std::string_view name, const std::vector<double>& sums) {
    const MetricSpec metric = MetricSpec::of(name);
    return metric.recipe().finish(sums, {metric.settings, Labels::classes})[0];
  };
  // Hits, predictions and labels of three classes, of which the last has none.
  const std::vector<double> sums{2, 1, 0, 3, 2, 0, 2, 3, 0};
  CHECK(finish("precision", sums) == (2.0 / 3 + 1.0 / 2) / 2);
  CHECK(finish("recall", sums) == (2.0 / 2 + 1.0 / 3) / 2);
  CHECK(finish("iou", sums) == (2.0 / 3 + 1.0 / 4) / 2);
  CHECK(finish("f1", std::vector<double>(9, 0)) == 0);
  CHECK(finish("matthews", std::vector<double>(9, 0)) == 0);
}

}  // namespace
}  // namespace leat
