// leat.CtcLoss against a sum over all paths, and its gradient against finite differences.
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using testing::check_close;
using testing::check_gradients;
using testing::check_identical;
using testing::check_tiles;
using testing::random_tensor;
using testing::run1;
using testing::run_error;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The labels that a path becomes: repetitions are joined, then blanks are left out.
std::vector<int64_t> collapsed(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> out;
  for (size_t t = 0; t < path.size(); ++t) {
    const bool repeats = t > 0 && path[t] == path[t - 1];
    if (path[t] != blank && !repeats) out.push_back(path[t]);
  }
  return out;
}

// -log of the sum over all paths of `times` steps of row `row`.
double by_all_paths(const Tensor& log_probs, int64_t row, int64_t times,
                    const std::vector<int64_t>& labels, int64_t blank) {
  const int64_t classes = log_probs.shape()[2];
  const auto paths = static_cast<int64_t>(std::pow(classes, times));
  double sum = 0;
  for (int64_t number = 0; number < paths; ++number) {
    std::vector<int64_t> path;
    double log_prob = 0;
    for (int64_t t = 0, rest = number; t < times; ++t, rest /= classes) {
      path.push_back(rest % classes);
      log_prob += log_probs.at((row * log_probs.shape()[1] + t) * classes + path.back());
    }
    if (collapsed(path, blank) == labels) sum += std::exp(log_prob);
  }
  return -std::log(sum);
}

Tensor log_probs(DType dtype, const Shape& shape) {
  return run1("LogSoftmax", {random_tensor(dtype, shape, 3, -2, 2)}, {{"axis", int64_t{2}}});
}

TEST_CASE("the CTC loss is that of all paths that become the labels") {
  const Tensor x = log_probs(DType::f64, {4, 5, 3});
  const Tensor labels = Tensor::of<int64_t>({4, 2}, {1, 2, 1, 1, 2, 0, 0, 0});
  const Tensor times = Tensor::of<int64_t>({4}, {5, 5, 4, 3});
  const Tensor lengths = Tensor::of<int64_t>({4}, {2, 2, 1, 0});
  const Tensor loss = run1("leat.CtcLoss", {x, labels, times, lengths});
  const std::vector<std::vector<int64_t>> lists{{1, 2}, {1, 1}, {2}, {}};
  for (int64_t row = 0; row < 4; ++row) {
    const double expected = by_all_paths(x, row, times.int_at(row), lists[row], 0);
    CHECK(std::abs(loss.at(row) - expected) < 1e-12);
  }
  // Another blank, and 32-bit labels without lengths.
  const Tensor others = Tensor::of<int32_t>({4, 2}, {0, 1, 1, 1, 1, 0, 0, 0});
  const Tensor whole = run1("leat.CtcLoss", {x, others}, {{"blank", int64_t{2}}});
  for (int64_t row = 0; row < 4; ++row) {
    const std::vector<int64_t> list{others.int_at(2 * row), others.int_at(2 * row + 1)};
    CHECK(std::abs(whole.at(row) - by_all_paths(x, row, 5, list, 2)) < 1e-12);
  }
  check_close(run1("leat.CtcLoss", {x.cast(DType::f32), others}, {{"blank", int64_t{2}}}),
              whole.cast(DType::f32), 1e-5, 1e-5);
}

TEST_CASE("the gradient of the CTC loss is that of finite differences") {
  const Tensor x = log_probs(DType::f64, {4, 5, 3});
  const Tensor labels = Tensor::of<int64_t>({4, 2}, {1, 2, 1, 1, 2, 0, 0, 0});
  const Tensor times = Tensor::of<int64_t>({4}, {5, 5, 4, 3});
  const Tensor lengths = Tensor::of<int64_t>({4}, {2, 2, 1, 0});
  check_gradients("leat.CtcLoss", {x, labels, times, lengths}, {}, {0});
  check_gradients("leat.CtcLoss", {x, Tensor::of<int64_t>({4, 1}, {0, 1, 1, 0})},
                  {{"blank", int64_t{2}}}, {0});
  check_tiles("leat.CtcLoss", {x, labels, times, lengths});
  check_tiles("leat.CtcLossGrad", {random_tensor(DType::f64, {4}, 9), x, labels, times, lengths});
}

TEST_CASE("labels that the output is too short for have an infinite loss, or none") {
  const Tensor x = log_probs(DType::f64, {3, 2, 3});
  // Two equal labels need a blank between them; an empty output has the empty labels alone.
  const Tensor labels = Tensor::of<int64_t>({3, 2}, {1, 1, 1, 2, 0, 0});
  const Tensor times = Tensor::of<int64_t>({3}, {2, 2, 0}),
               lengths = Tensor::of<int64_t>({3}, {2, 2, 0});
  const Attrs finite = {{"zero_infinity", int64_t{1}}};
  const Tensor loss = run1("leat.CtcLoss", {x, labels, times, lengths});
  CHECK(loss.at(0) == kInfinity);
  CHECK(std::isfinite(loss.at(1)));
  CHECK(loss.at(2) == 0);
  const Tensor zeroed = run1("leat.CtcLoss", {x, labels, times, lengths}, finite);
  CHECK(zeroed.at(0) == 0);
  CHECK(zeroed.at(1) == loss.at(1));
  const Tensor ones = Tensor::of<double>({3}, {1, 1, 1});
  const Tensor grad = run1("leat.CtcLossGrad", {ones, x, labels, times, lengths});
  CHECK(std::isnan(grad.at(1)));
  const Tensor of_zeroed = run1("leat.CtcLossGrad", {ones, x, labels, times, lengths}, finite);
  for (int64_t i = 0; i < 6; ++i) CHECK(of_zeroed.at(i) == 0);
  for (int64_t i = 6; i < 12; ++i) CHECK(of_zeroed.at(i) == grad.at(i));
  // At each time the shares of the classes sum up to 1.
  for (int64_t t = 0; t < 2; ++t) {
    const double sum = grad.at(6 + 3 * t) + grad.at(7 + 3 * t) + grad.at(8 + 3 * t);
    CHECK(std::abs(sum + 1) < 1e-12);
  }
}

TEST_CASE("a wrong label or length fails the step with its row, and a wrong node is refused") {
  const Tensor x = log_probs(DType::f32, {2, 4, 3});
  const auto error_of = [&](const std::vector<Tensor>& inputs, const Attrs& attrs = {}) {
    return std::string(run_error("leat.CtcLoss", inputs, attrs).message());
  };
  CHECK_THAT(
      error_of({x, Tensor::of<int64_t>({2, 1}, {1, 3})}),
      Catch::Contains("row 1: expected labels in [0, 2] other than the blank 0, received 3"));
  CHECK_THAT(error_of({x, Tensor::of<int64_t>({2, 1}, {0, 1})}), Catch::Contains("received 0"));
  const Tensor labels = Tensor::of<int64_t>({2, 1}, {1, 1});
  CHECK_THAT(error_of({x, labels, Tensor::of<int64_t>({2}, {4, 5})}),
             Catch::Contains("row 1: expected a length of the output in [0, 4], received 5"));
  CHECK_THAT(error_of({x, labels, Tensor(), Tensor::of<int64_t>({2}, {-1, 1})}),
             Catch::Contains("row 0: expected a length of the labels in [0, 1], received -1"));
  CHECK_THAT(error_of({x, labels}, {{"blank", int64_t{3}}}),
             Catch::Contains("blank: expected a class"));
  CHECK_THAT(error_of({x, Tensor::of<int64_t>({3, 1}, {1, 1, 1})}),
             Catch::Contains("labels: expected [N,S]"));
}

}  // namespace
}  // namespace leat
