// DFT against sums of its definition, for lengths of every kind.
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "devices/base/text.h"
#include "ops/cpu/fft.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Line = std::vector<std::complex<double>>;

Line transformed(const Line& x, double sign) {
  const size_t n = x.size();
  Line y(n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t t = 0; t < n; ++t) {
      const auto turns = static_cast<double>(k * t % n) / static_cast<double>(n);
      y[k] += x[t] * std::polar(1.0, sign * 2 * std::numbers::pi * turns);
    }
  }
  return y;
}

// Lines of [rows, n, 2] as tensors and back.
Line line_of(const Tensor& x, int64_t row) {
  const int64_t n = x.shape()[1], parts = x.shape()[2];
  Line line;
  for (int64_t t = 0; t < n; ++t) {
    const int64_t at = (row * n + t) * parts;
    line.emplace_back(x.at(at), parts == 2 ? x.at(at + 1) : 0);
  }
  return line;
}

void check_line(const Line& actual, const Line& expected, double scale = 1) {
  REQUIRE(actual.size() == expected.size());
  for (size_t k = 0; k < actual.size(); ++k)
    REQUIRE(std::abs(actual[k] - expected[k] * scale) < 1e-9);
}

TEST_CASE("a transform of any length is that of its definition") {
  for (const int64_t n : {1,  2,  3,  4,  5,  6,  7,  8,   9,   11,  12,  13,  16,  17, 22,
                          23, 26, 30, 49, 60, 64, 97, 121, 128, 169, 210, 255, 257, 360}) {
    INFO("length " << n);
    const Tensor x = random_tensor(DType::f64, {2, n, 2}, static_cast<uint64_t>(n));
    const Tensor y = run1("DFT", {x}), back = run1("DFT", {y}, {{"inverse", int64_t{1}}});
    for (int64_t row = 0; row < 2; ++row)
      check_line(line_of(y, row), transformed(line_of(x, row), -1));
    check_close(back, x, 1e-9, 1e-9);
    const Tensor unscaled = run1("DFT", {x}, {{"inverse", int64_t{1}}});
    check_line(line_of(unscaled, 1), transformed(line_of(x, 1), 1), 1 / static_cast<double>(n));
  }
}

TEST_CASE("a transform of a long prime length is precise") {
  constexpr int64_t kLength = 10007;
  const Fft fft(kLength);
  Line x(kLength), scratch(static_cast<size_t>(fft.scratch()));
  for (size_t t = 0; t < x.size(); ++t)
    x[t] = std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(t * 17 % kLength) / kLength);
  fft.transform(x.data(), scratch.data());
  // A pure tone has one frequency.
  for (size_t k = 0; k < x.size(); ++k)
    REQUIRE(std::abs(x[k] - (k == 17 ? std::complex<double>(kLength) : 0)) < 1e-7);
}

TEST_CASE("one side of a transform is its first half, and goes back to real numbers") {
  for (const int64_t n : {1, 2, 5, 8, 13}) {
    const Tensor x = random_tensor(DType::f64, {2, n, 1}, 3);
    const Attrs side{{"onesided", int64_t{1}}}, back{{"onesided", int64_t{1}}, {"inverse", 1}};
    const Tensor y = run1("DFT", {x}, side);
    CHECK(y.shape() == Shape{2, n / 2 + 1, 2});
    Line whole = transformed(line_of(x, 1), -1);
    whole.resize(static_cast<size_t>(n / 2 + 1));
    check_line(line_of(y, 1), whole);
    check_close(run1("DFT", {y, Tensor::scalar<int64_t>(n)}, back), x, 1e-9, 1e-9);
  }
}

TEST_CASE("the length of a transform cuts the signal, or puts zeros behind it") {
  const Tensor x = Tensor::of<float>({1, 4, 1}, {1, 2, 3, 4});
  check_close(run1("DFT", {x, Tensor::scalar<int32_t>(2)}),
              Tensor::of<float>({1, 2, 2}, {3, 0, -1, 0}));
  check_close(run1("DFT", {Tensor::of<float>({2, 1}, {1, 2}), Tensor::scalar<int64_t>(4)}),
              Tensor::of<float>({4, 2}, {3, 0, 1, -2, -1, 0, 1, 2}), 1e-5, 1e-6);
}

TEST_CASE("a transform is along any axis but the last") {
  const Tensor x = random_tensor(DType::f64, {4, 3, 2, 2}, 8);
  const Tensor turned = run1("Transpose", {x}, {{"perm", std::vector<int64_t>{2, 1, 0, 3}}});
  const Tensor first = run1("DFT", {x, Tensor(), Tensor::scalar<int64_t>(0)});
  check_close(run1("Transpose", {first}, {{"perm", std::vector<int64_t>{2, 1, 0, 3}}}),
              run1("DFT", {turned}), 1e-12, 1e-12);
  check_identical(run1("DFT", {x, Tensor(), Tensor::scalar<int64_t>(-3)}),
                  run1("DFT", {x, Tensor(), Tensor::scalar<int64_t>(1)}));
}

TEST_CASE("DFT refuses operands that do not fit") {
  const Tensor real(DType::f32, {2, 4, 1}), complex(DType::f32, {2, 4, 2});
  const auto message = [](std::vector<Tensor> inputs, const Attrs& attrs = {}) {
    return run_error("DFT", inputs, attrs).message();
  };
  CHECK_THAT(message({Tensor(DType::f32, {4})}), Catch::Contains("input: expected [...,length"));
  CHECK_THAT(message({Tensor(DType::f32, {4, 3})}),
             Catch::Contains("expected the last size to be 1, of real numbers, or 2"));
  CHECK_THAT(message({complex}, {{"onesided", int64_t{1}}}),
             Catch::Contains("expected real numbers, since onesided is 1 and inverse is 0"));
  CHECK_THAT(message({real}, {{"onesided", int64_t{1}}, {"inverse", int64_t{1}}}),
             Catch::Contains("expected complex numbers"));
  CHECK_THAT(message({real, Tensor::scalar<int64_t>(0)}),
             Catch::Contains("dft_length: expected at least 1, received 0"));
  CHECK_THAT(message({real, ints({2, 3})}), Catch::Contains("dft_length: expected a scalar"));
  for (const int64_t axis : {-1, 2, -4}) {
    CHECK_THAT(message({real, Tensor(), Tensor::scalar(axis)}),
               Catch::Contains("axis: expected in [-3, -2] or [0, 1]"));
  }
  CHECK_THAT(run_error("leat.DFTGrad", {complex, Tensor(DType::f32, {2, 5, 2})}).message(),
             Catch::Contains("dY: expected [2,5,2], received [2,4,2]"));
}

}  // namespace
}  // namespace leat::testing
