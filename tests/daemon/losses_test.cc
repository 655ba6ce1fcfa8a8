// Each loss against PyTorch: the losses of 50 steps of plain SGD in float64, and the weights after
// them. tests/peers/loss_references.py writes the references.
#include <cmath>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/differences.h"
#include "tests/daemon/recipe_scene.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr int64_t kRecords = 24;

struct LossCase {
  std::string name;  // in losses.txt
  std::string loss;  // in the job file
  int64_t units = 3;
  std::string end = {};  // nodes after the last layer
  std::string output = "3";
  std::optional<Tensor> labels;
};

std::vector<LossCase> loss_cases() {
  const Tensor hard = class_labels({kRecords}, 3);
  const Tensor many = with_ignored(class_labels({kRecords, 4}, 3));
  const Tensor soft = probabilities({kRecords, 3}, 6000);
  const Tensor binary = as_numbers(class_labels({kRecords, 3}, 2));
  const Tensor values = noise({kRecords, 3}, 5000, 2);
  const std::string tokens =
      "  s = Constant <value = int64[3] {-1, 4, 3}> ()\n  y = Reshape (z, s)\n";
  const std::string times =
      "  s = Constant <value = int64[3] {-1, 4, 3}> ()\n  r = Reshape (z, s)\n"
      "  y = Transpose <perm = [1, 0, 2]> (r)\n";
  const std::string pixels =
      "  s = Constant <value = int64[3] {-1, 3, 4}> ()\n  y = Reshape (z, s)\n";
  const std::string triples =
      "  s = Constant <value = int64[3] {-1, 3, 2}> ()\n  y = Reshape (z, s)\n";
  const std::string weights = "class_weights: [0.5, 2, 1.25]";
  return {
      {"cross_entropy", "cross_entropy", 3, "", "3", hard},
      {"smoothing", "{name: cross_entropy, label_smoothing: 0.1}", 3, "", "3", hard},
      {"class_weights", cat("{name: cross_entropy, ", weights, "}"), 3, "", "3", hard},
      {"tokens", "{name: cross_entropy, ignore_index: -100}", 12, tokens, "4,3", many},
      {"pixels",
       cat("{name: cross_entropy, ignore_index: -100, label_smoothing: 0.2, ", weights, "}"), 12,
       pixels, "3,4", many},
      {"soft", "{name: cross_entropy, soft_labels: true}", 3, "", "3", soft},
      {"soft_weights",
       cat("{name: cross_entropy, soft_labels: true, label_smoothing: 0.1, ", weights, "}"), 12,
       pixels, "3,4", probabilities({kRecords, 3, 4}, 6000)},
      {"probabilities", "{name: cross_entropy, from_logits: false}", 3, "  y = Softmax (z)\n", "3",
       hard},
      {"binary", "binary_cross_entropy", 3, "", "3", binary},
      {"binary_weight", "{name: binary_cross_entropy, pos_weight: 2.5}", 3, "", "3", binary},
      {"binary_probabilities", "{name: binary_cross_entropy, from_logits: false}", 3,
       "  y = Sigmoid (z)\n", "3", binary},
      {"focal", "focal", 3, "", "3", binary},
      {"focal_plain", "{name: focal, alpha: -1, gamma: 1.5}", 3, "", "3", binary},
      {"hinge", "hinge", 3, "", "3", binary},
      {"mse", "mse", 3, "", "3", values},
      {"l1", "l1", 3, "", "3", values},
      {"l1", "mae", 3, "", "3", values},
      {"huber", "{name: huber, delta: 0.7}", 3, "", "3", values},
      {"smooth_l1", "{name: smooth_l1, beta: 0.3}", 3, "", "3", values},
      {"log_cosh", "log_cosh", 3, "", "3", values},
      {"poisson", "poisson", 3, "", "3", as_numbers(class_labels({kRecords, 3}, 4))},
      {"kl_div", "kl_div", 3, "  y = LogSoftmax (z)\n", "3", soft},
      {"cosine", "cosine", 3, "", "3", values},
      {"triplet", "{name: triplet, margin: 0.8}", 6, triples, "3,2", {}},
      {"ctc", "ctc", 12, tokens, "4,3", sequence_labels(kRecords, 1, false)},
      {"ctc", "{name: ctc, time_major: true}", 12, times, "4,N,3",
       sequence_labels(kRecords, 1, false)},
      {"ctc_padded", "{name: ctc, blank: 2, ignore_index: -1}", 12, tokens, "4,3",
       sequence_labels(kRecords, 0, true)},
  };
}

TEST_CASE("every loss is PyTorch's, and leaves PyTorch's weights after 50 steps") {
  const auto expected = references("losses.txt");
  constexpr int kShown[] = {0, 1, 2, 10, 30, 49};
  double worst = 0;
  for (const LossCase& each : loss_cases()) {
    INFO(each.name << ", " << each.loss);
    const RecipeScene scene(two_layers(each.units, each.end, each.output), each.units, kRecords,
                            each.labels ? &*each.labels : nullptr);
    Silent watch;
    double of_loss = 0;
    const TrainOutcome one = scene.small().train(scene.job(each.loss), "one", watch);
    REQUIRE(watch.losses.size() == 50);
    const auto close = [&](double found, double wanted) {
      const double difference = std::abs(found - wanted) / std::max(1.0, std::abs(wanted));
      of_loss = std::max(of_loss, difference);
      CHECK(difference < 1e-9);
    };
    const auto& losses = expected.at(each.name + " losses");
    for (size_t i = 0; i < std::size(kShown); ++i) close(watch.losses[kShown[i]], losses[i]);
    const auto& weights = expected.at(each.name + " weights");
    const std::vector<double> found = scene.weights("one");
    REQUIRE(found.size() == weights.size());
    for (size_t i = 0; i < weights.size(); ++i) close(found[i], weights[i]);
    worst = std::max(worst, of_loss);
    note_difference("loss", each.name, of_loss);
    if (kSlowness > 1) continue;
    CHECK(scene.small().hash(scene.job(each.loss, {"num_workers=3"}), "three", 2) ==
          one.weights_sha256);
  }
  CHECK(worst > 0);  // numbers were compared
}

TEST_CASE("weights of classes are one for each class, and soft labels have the output's shape") {
  const auto error_of = [](const std::string& loss, const Tensor& labels) {
    const RecipeScene scene(two_layers(3, "", "3"), 3, kRecords, &labels);
    const auto trainer =
        scene.small().trainer(scene.job(loss), {scene.small().path("refused"), false, 1});
    if (!trainer.ok()) return std::string(trainer.status().message());
    return std::string((*trainer)->plan_training().status().message());
  };
  CHECK_THAT(error_of("{name: cross_entropy, class_weights: [1, 2]}", class_labels({kRecords}, 3)),
             Catch::Contains("class_weights: expected 3, one for each class, received 2"));
  CHECK_THAT(error_of("{name: cross_entropy, soft_labels: true}", class_labels({kRecords}, 3)),
             Catch::Contains("'y.npy': expected labels of the shape of a row of"));
  CHECK_THAT(error_of("cross_entropy", probabilities({kRecords, 3}, 1)),
             Catch::Contains("expected classes as integers"));
}

TEST_CASE("a loss with weights of classes shows the accuracy of all labels alike") {
  const Tensor labels = with_ignored(class_labels({kRecords}, 3));
  const auto accuracies = [&](const std::string& loss) {
    RecipeScene scene(two_layers(3, "", "3"), 3, kRecords, &labels);
    scene.validate_on(kRecords, labels);
    Silent watch;
    const Job job =
        scene.job(loss, {"metrics=[accuracy]", "steps=1",
                         "optimizer={name: sgd, learning_rate: 1e-12}", "global_batch_size=24"});
    const TrainOutcome outcome = scene.small().train(job, "run", watch);
    return std::pair(*watch.last.accuracy, *outcome.validation->accuracy);
  };
  const auto plain = accuracies("{name: cross_entropy, ignore_index: -100}");
  const auto weighted = accuracies(
      "{name: cross_entropy, ignore_index: -100, class_weights: [0.001, 0.002, 0.0005]}");
  CHECK(plain.first == plain.second);
  CHECK(std::abs(weighted.first - plain.first) < 1e-12);
  CHECK(std::abs(weighted.second - plain.second) < 1e-12);
}

}  // namespace
}  // namespace leat
