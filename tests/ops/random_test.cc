#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "devices/base/philox.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using testing::check_identical;
using testing::check_tiles;
using testing::run1;
using testing::run_error;

Tensor draw(const char* name, const std::vector<Tensor>& inputs, const Attrs& attrs,
            int64_t first_row = 0, uint32_t source = 3, uint64_t seed = 11, uint64_t step = 2) {
  const OpDef& op = *testing::test_catalogue().find(name);
  Node node;
  node.op = &op;
  node.attrs = attrs;
  node.source = source;
  node.first_row = first_row;
  InterpretOptions options;
  options.seed = seed;
  options.step = step;
  auto result = run_op(op, attrs, inputs, 1, name, options, &node);
  REQUIRE(result.ok());
  return (*result)[0];
}

Attrs shaped(const std::vector<int64_t>& shape, Attrs attrs = {}) {
  attrs["shape"] = shape;
  return attrs;
}

std::pair<double, double> moments(const Tensor& x) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    sum += x.at(i);
    squares += x.at(i) * x.at(i);
  }
  const double n = static_cast<double>(x.elements()), mean = sum / n;
  return {mean, squares / n - mean * mean};
}

TEST_CASE("random tensors have the mean and variance that they are asked for") {
  for (int64_t dtype : {1, 11, 10, 16}) {  // float, double, float16, bfloat16
    const auto [mean, variance] = moments(draw(
        "RandomNormal", {}, shaped({100, 100}, {{"mean", 2.0}, {"scale", 0.5}, {"dtype", dtype}})));
    CHECK(mean == Approx(2).margin(0.02));
    CHECK(variance == Approx(0.25).margin(0.02));
    const Tensor uniform = draw(
        "RandomUniform", {}, shaped({100, 100}, {{"low", -1.0}, {"high", 3.0}, {"dtype", dtype}}));
    CHECK(moments(uniform).first == Approx(1).margin(0.05));
    CHECK(moments(uniform).second == Approx(16.0 / 12).margin(0.05));
    for (int64_t i = 0; i < uniform.elements(); ++i)
      REQUIRE((uniform.at(i) >= -1 && uniform.at(i) <= 3));
  }
}

TEST_CASE("a random element is a function of seed, node, step and its index") {
  const Tensor x = draw("RandomUniform", {}, shaped({6, 5}));
  const RandomStream stream(11, 3, 2);
  for (int64_t i = 0; i < 30; ++i)
    REQUIRE(x.data<float>()[i] == stream.uniform_f32(static_cast<uint64_t>(i)));
  const Tensor shard = draw("RandomUniform", {}, shaped({2, 5}), 3);
  for (int64_t i = 0; i < 10; ++i) REQUIRE(shard.data<float>()[i] == x.data<float>()[15 + i]);
  CHECK_FALSE(draw("RandomUniform", {}, shaped({6, 5}), 0, 4).identical(x));
  CHECK_FALSE(draw("RandomUniform", {}, shaped({6, 5}), 0, 3, 12).identical(x));
  CHECK_FALSE(draw("RandomUniform", {}, shaped({6, 5}), 0, 3, 11, 3).identical(x));
  check_identical(draw("RandomUniform", {}, shaped({6, 5}, {{"seed", 11.0}}), 0, 3, 500), x);
  CHECK_FALSE(draw("RandomUniform", {}, shaped({6, 5}, {{"seed", 11.5}})).identical(x));
  check_identical(draw("RandomUniformLike", {Tensor(DType::f32, {6, 5})}, {}), x);
}

TEST_CASE("a uniform number never reaches its upper bound") {
  const double low = 16777215;
  const Tensor x = draw("RandomUniform", {}, shaped({1000}, {{"low", low}, {"high", low + 1}}));
  for (int64_t i = 0; i < x.elements(); ++i) REQUIRE(x.at(i) == low);
  check_identical(draw("RandomUniform", {}, shaped({2}, {{"low", 4.0}, {"high", 4.0}})),
                  Tensor::of<float>({2}, {4, 4}));
}

TEST_CASE("a tensor like another takes its shape, and its type unless told") {
  CHECK(draw("RandomNormalLike", {Tensor(DType::f64, {2, 3})}, {}).dtype() == DType::f64);
  CHECK(draw("RandomNormalLike", {Tensor(DType::i32, {2, 3})}, {{"dtype", int64_t{1}}}).shape() ==
        Shape{2, 3});
  CHECK_THAT(run_error("RandomNormalLike", {Tensor(DType::i32, {2})}).message(),
             Catch::Contains("dtype: expected to be given"));
}

TEST_CASE("Bernoulli is one with the probability of its element") {
  const Tensor p = Tensor::of<float>({4}, {0, 1, 0, 1});
  check_identical(draw("Bernoulli", {p}, {}), p);
  check_identical(draw("Bernoulli", {p}, {{"dtype", int64_t{9}}}),
                  Tensor::of<bool>({4}, {false, true, false, true}));
  Tensor third(DType::f64, {90, 100});
  for (int64_t i = 0; i < third.elements(); ++i) third.set(i, 1.0 / 3);
  CHECK(moments(draw("Bernoulli", {third}, {})).first == Approx(1.0 / 3).margin(0.02));
}

TEST_CASE("Multinomial draws each class as often as its probability says") {
  // Unnormalized, and far from 0: the first class twice as often as the second, the third never.
  const double second = 800, first = second + std::log(2);
  const Tensor x = Tensor::of<double>(
      {2, 3}, {first, second, -std::numeric_limits<double>::infinity(), -1e9, -5, -1e9});
  const Tensor y = draw("Multinomial", {x}, {{"sample_size", int64_t{6000}}});
  CHECK(y.dtype() == DType::i32);
  CHECK(y.shape() == Shape{2, 6000});
  std::array<int, 3> counts{};
  for (int64_t i = 0; i < 6000; ++i) {
    ++counts[static_cast<size_t>(y.at(i))];
    REQUIRE(y.at(6000 + i) == 1);
  }
  CHECK(counts[0] == Approx(4000).margin(150));
  CHECK(counts[2] == 0);
  CHECK(draw("Multinomial", {x}, {{"dtype", int64_t{7}}}).dtype() == DType::i64);
}

TEST_CASE("a sample of Multinomial is a function of seed, node, step and its place") {
  const Tensor x = testing::random_tensor(DType::f32, {6, 50}, 1), rows(DType::f32, {2, 50});
  const Attrs attrs{{"sample_size", int64_t{40}}};
  const Tensor y = draw("Multinomial", {x}, attrs);
  std::copy_n(x.data<float>() + 150, 100, rows.data<float>());
  const Tensor shard = draw("Multinomial", {rows}, attrs, 3);
  for (int64_t i = 0; i < 80; ++i) REQUIRE(shard.at(i) == y.at(120 + i));
  CHECK_FALSE(draw("Multinomial", {x}, attrs, 0, 4).identical(y));
  CHECK_FALSE(draw("Multinomial", {x}, attrs, 0, 3, 12).identical(y));
  CHECK_FALSE(draw("Multinomial", {x}, attrs, 0, 3, 11, 3).identical(y));
  check_identical(
      draw("Multinomial", {x}, {{"sample_size", int64_t{40}}, {"seed", 11.0}}, 0, 3, 500), y);
}

TEST_CASE("Multinomial refuses rows without probabilities, and other types than indices") {
  const auto message = [](const Tensor& x, const Attrs& attrs = {}) {
    return run_error("Multinomial", {x}, attrs).message();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              none = -std::numeric_limits<float>::infinity();
  CHECK_THAT(message(Tensor::of<float>({2, 2}, {0, 1, nan, 1})),
             Catch::Contains("received another one in row 1"));
  CHECK_THAT(message(Tensor::of<float>({1, 2}, {none, none})),
             Catch::Contains("expected rows with a finite largest log-probability"));
  CHECK_THAT(message(Tensor(DType::f32, {2, 0})), Catch::Contains("expected [rows,classes]"));
  CHECK_THAT(message(Tensor(DType::f32, {2})), Catch::Contains("expected [rows,classes]"));
  CHECK_THAT(message(Tensor(DType::f32, {1, 2}), {{"dtype", int64_t{1}}}),
             Catch::Contains("dtype: expected that of int32 or int64, received 1"));
  CHECK_THAT(message(Tensor(DType::f32, {1, 2}), {{"sample_size", int64_t{-1}}}),
             Catch::Contains("sample_size: expected at least 0"));
}

TEST_CASE("random tensors are cut into rows") {
  check_tiles("RandomNormal", {}, shaped({7, 5}));
  check_tiles("RandomUniform", {}, shaped({7, 5}, {{"dtype", int64_t{11}}}));
  check_tiles("RandomUniformLike", {Tensor(DType::f32, {7, 5})});
  check_tiles("Bernoulli", {testing::random_tensor(DType::f32, {7, 5}, 1, 0, 1)});
  check_tiles("Multinomial", {testing::random_tensor(DType::f32, {7, 5}, 1)},
              {{"sample_size", int64_t{9}}});
}

TEST_CASE("wrong requests for random numbers are refused") {
  CHECK_THAT(run_error("RandomNormal", {}, shaped({-1})).message(),
             Catch::Contains("sizes >= 0, received [-1]"));
  CHECK_THAT(run_error("RandomNormal", {}, shaped({1}, {{"dtype", int64_t{7}}})).message(),
             Catch::Contains("received 7 (int64)"));
  CHECK_THAT(run_error("RandomUniform", {}, shaped({1}, {{"low", 2.0}})).message(),
             Catch::Contains("expected low <= high"));
  CHECK_THAT(run_error("RandomNormal", {}).message(), Catch::Contains("'shape' (ints) is missing"));
}

}  // namespace
}  // namespace leat
