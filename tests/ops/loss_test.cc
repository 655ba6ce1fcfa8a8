#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using testing::check_close;
using testing::check_gradients;
using testing::check_identical;
using testing::check_tiles;
using testing::random_tensor;
using testing::run;
using testing::run1;
using testing::run_error;

constexpr const char* kSoftmaxLoss = "SoftmaxCrossEntropyLoss";
constexpr const char* kLikelihoodLoss = "NegativeLogLikelihoodLoss";

Attrs reduction(const std::string& name) { return {{"reduction", name}}; }
Attrs ignoring(const std::string& name, int64_t label) {
  return {{"reduction", name}, {"ignore_index", label}};
}

// Computes the loss in f64, position by position, from the standard's formula.
Tensor naive(const Tensor& log_prob, const Tensor& labels, const Tensor& weights,
             const std::string& reduction, int64_t ignored) {
  const int64_t classes = log_prob.shape()[1],
                inner = log_prob.shape().elements(2, log_prob.shape().rank());
  Tensor losses(DType::f64, labels.shape());
  double sum = 0, total = 0;
  for (int64_t p = 0; p < labels.elements(); ++p) {
    const int64_t label = labels.int_at(p);
    if (label == ignored) continue;
    const double weight = weights.valid() ? weights.at(label) : 1;
    losses.set(p, -weight * log_prob.at((p / inner * classes + label) * inner + p % inner));
    sum += losses.at(p);
    total += weight;
  }
  if (reduction == "none") return losses;
  return Tensor::scalar<double>(reduction == "sum" ? sum : sum / total);
}

TEST_CASE(
    "both losses agree with their definition for every reduction, weights and an ignored label") {
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 4, 2, 3}}) {
    const Tensor scores = random_tensor(DType::f32, shape, 3, -4, 4);
    Shape label_shape{shape[0]};
    for (int i = 2; i < shape.rank(); ++i) label_shape.push_back(shape[i]);
    const Tensor labels =
        random_tensor(DType::i64, label_shape, 4, 0, static_cast<double>(shape[1]));
    const Tensor log_prob = run1("LogSoftmax", {scores.cast(DType::f64)}, {{"axis", int64_t{1}}});
    for (const Tensor& weights : {Tensor(), random_tensor(DType::f32, {shape[1]}, 6, 0.5, 2)}) {
      for (const char* name : {"none", "sum", "mean"}) {
        for (int64_t ignored : {int64_t{-100}, labels.int_at(0)}) {
          const Tensor expected = naive(log_prob, labels, weights, name, ignored).cast(DType::f32);
          const Attrs attrs = ignoring(name, ignored);
          check_close(run1(kSoftmaxLoss, {scores, labels, weights}, attrs), expected, 1e-5, 1e-6);
          check_close(run1(kSoftmaxLoss, {scores, labels.cast(DType::i32), weights}, attrs),
                      expected, 1e-5, 1e-6);
          check_close(run1(kLikelihoodLoss, {log_prob.cast(DType::f32), labels, weights}, attrs),
                      expected, 1e-5, 1e-6);
        }
      }
    }
    const auto both = run(kSoftmaxLoss, {scores, labels}, {}, 2);
    check_identical(both[1], run1("LogSoftmax", {scores}, {{"axis", int64_t{1}}}));
    check_identical(both[0], run1(kSoftmaxLoss, {scores, labels}));
  }
}

TEST_CASE("an ignored label need not be a class") {
  const Tensor scores = Tensor::of<float>({2, 2}, {0, 0, 1, 5});
  const Tensor labels = Tensor::of<int64_t>({2}, {1, -1});
  check_close(run1(kSoftmaxLoss, {scores, labels}, ignoring("mean", -1)),
              Tensor::scalar<float>(std::log(2.0f)));
  const Tensor grad =
      run1("leat.SoftmaxCrossEntropyLossGrad",
           {Tensor::scalar<float>(1), run1("LogSoftmax", {scores}), labels}, ignoring("mean", -1));
  check_close(grad, Tensor::of<float>({2, 2}, {0.5f, -0.5f, 0, 0}));
}

TEST_CASE("a label out of range fails the step with its row and value") {
  const Tensor scores(DType::f32, {3, 4});
  for (int64_t label : {4, -1}) {
    const Tensor labels = Tensor::of<int64_t>({3}, {0, 1, label});
    for (const char* op : {kSoftmaxLoss, kLikelihoodLoss}) {
      const Status status = run_error(op, {scores, labels});
      CHECK(status.code() == Code::invalid_argument);
      CHECK_THAT(status.message(), Catch::Contains("label of row 2: expected in [0, 3], received " +
                                                   std::to_string(label)));
    }
    CHECK_THAT(
        run_error("leat.SoftmaxCrossEntropyLossGrad", {Tensor::scalar<float>(1), scores, labels})
            .message(),
        Catch::Contains("label of row 2"));
  }
}

TEST_CASE("wrong operands of a loss are refused") {
  const Tensor scores(DType::f32, {3, 4}), labels(DType::i64, {3});
  CHECK_THAT(run_error(kSoftmaxLoss, {scores, Tensor(DType::i64, {4})}).message(),
             Catch::Contains("without its axis 1, received [4]"));
  CHECK_THAT(run_error(kSoftmaxLoss, {Tensor(DType::f32, {4}), labels}).message(),
             Catch::Contains("expected [N,C,...]"));
  CHECK_THAT(run_error(kSoftmaxLoss, {scores, labels, Tensor(DType::f32, {3})}).message(),
             Catch::Contains("one for each class"));
  CHECK_THAT(run_error(kSoftmaxLoss, {scores, labels}, reduction("median")).message(),
             Catch::Contains("received 'median'"));
  CHECK_THAT(run_error(kSoftmaxLoss, {scores, Tensor(DType::f32, {3})}).message(),
             Catch::Contains("labels"));
  CHECK_THAT(
      run_error("leat.SoftmaxCrossEntropyLossGrad", {labels.cast(DType::f32), scores, labels})
          .message(),
      Catch::Contains("dloss: expected shape [], received [3]"));
}

TEST_CASE("losses are cut into rows") {
  const Tensor scores = random_tensor(DType::f32, {7, 5}, 3),
               labels = random_tensor(DType::i64, {7}, 4, 0, 5);
  const Tensor weights = random_tensor(DType::f32, {5}, 6, 0.5, 2);
  for (const char* name : {"none", "sum", "mean"}) {
    check_tiles(kSoftmaxLoss, {scores, labels}, reduction(name), 2);
    check_tiles(kSoftmaxLoss, {scores, labels, weights}, reduction(name), 1);
    check_tiles(kLikelihoodLoss, {scores, labels}, reduction(name));
    const Tensor dloss = std::string(name) == "none" ? random_tensor(DType::f32, {7}, 8)
                                                     : Tensor::scalar<float>(0.5f);
    check_tiles("leat.SoftmaxCrossEntropyLossGrad", {dloss, scores, labels}, reduction(name));
  }
}

TEST_CASE("a loss over many rows does not depend on the order of tiles") {
  const Tensor scores = random_tensor(DType::f32, {5000, 10}, 3),
               labels = random_tensor(DType::i64, {5000}, 4, 0, 10);
  InterpretOptions reversed;
  reversed.reverse_tiles = true;
  check_identical(run(kSoftmaxLoss, {scores, labels}, {}, 1, reversed)[0],
                  run1(kSoftmaxLoss, {scores, labels}));
}

TEST_CASE("gradients of losses agree with finite differences") {
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 2}}) {
    const Tensor scores = random_tensor(DType::f64, shape, 3, -2, 0);
    Shape label_shape{shape[0]};
    for (int i = 2; i < shape.rank(); ++i) label_shape.push_back(shape[i]);
    const Tensor labels = random_tensor(DType::i64, label_shape, 4, 0, 3);
    for (const Tensor& weights : {Tensor(), random_tensor(DType::f64, {3}, 6, 0.5, 2)}) {
      for (const char* name : {"none", "sum", "mean"}) {
        for (const Attrs& attrs : {reduction(name), ignoring(name, labels.int_at(1))}) {
          check_gradients(kSoftmaxLoss, {scores, labels, weights}, attrs, {0});
          check_gradients(kSoftmaxLoss, {scores, labels, weights}, attrs, {0}, 2);
          check_gradients(kLikelihoodLoss, {scores, labels, weights}, attrs, {0});
        }
      }
    }
  }
}

}  // namespace
}  // namespace leat
