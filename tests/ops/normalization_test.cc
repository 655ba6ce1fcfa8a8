#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using testing::check_channels16;
using testing::check_close;
using testing::check_gradients;
using testing::check_identical;
using testing::check_tiles;
using testing::random_tensor;
using testing::run;
using testing::run1;
using testing::run_error;

const Attrs kTraining = {{"training_mode", int64_t{1}}};

std::vector<Tensor> batch_norm_inputs(DType dtype, const Shape& shape, double low = -1,
                                      double high = 1) {
  const Shape channels{shape[1]};
  return {random_tensor(dtype, shape, 1, low, high), random_tensor(dtype, channels, 2, 0.5, 2),
          random_tensor(dtype, channels, 3), random_tensor(dtype, channels, 4),
          random_tensor(dtype, channels, 5, 0.5, 2)};
}

// Returns Y, mean and variance of the batch in f64, straight from the definition.
std::vector<Tensor> naive_batch_norm(const std::vector<Tensor>& in, bool training, double epsilon) {
  const Tensor& x = in[0];
  const int64_t channels = x.shape()[1], area = x.shape().elements(2, x.shape().rank());
  const double n = static_cast<double>(x.elements()) / static_cast<double>(channels);
  Tensor y(DType::f64, x.shape()), mean(DType::f64, {channels}), variance(DType::f64, {channels});
  const auto channel = [&](int64_t i) { return i / area % channels; };
  for (int64_t i = 0; i < x.elements(); ++i)
    mean.set(channel(i), mean.at(channel(i)) + x.at(i) / n);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const double d = x.at(i) - mean.at(channel(i));
    variance.set(channel(i), variance.at(channel(i)) + d * d / n);
  }
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t c = channel(i);
    const double m = training ? mean.at(c) : in[3].at(c),
                 v = training ? variance.at(c) : in[4].at(c);
    y.set(i, (x.at(i) - m) / std::sqrt(v + epsilon) * in[1].at(c) + in[2].at(c));
  }
  return {y, mean, variance};
}

TEST_CASE("BatchNormalization agrees with its definition in both modes") {
  for (const Shape& shape : {Shape{5, 3, 4, 2}, Shape{70, 33}, Shape{2, 17, 65, 40}, Shape{1, 2, 7},
                             Shape{3, 16, 1, 1}}) {
    CAPTURE(shape);
    const auto in = batch_norm_inputs(DType::f32, shape);
    for (bool training : {false, true}) {
      const auto expected = naive_batch_norm(in, training, 1e-5);
      check_close(run1("BatchNormalization", in, {{"training_mode", int64_t{training}}}),
                  expected[0].cast(DType::f32), 1e-5, 2e-5);
    }
    const auto out =
        run("BatchNormalization", in, {{"training_mode", int64_t{1}}, {"momentum", 0.75}}, 5);
    const auto expected = naive_batch_norm(in, true, 1e-5);
    for (int64_t c = 0; c < shape[1]; ++c) {
      CHECK(out[1].at(c) ==
            Approx(0.75 * in[3].at(c) + 0.25 * expected[1].at(c)).epsilon(1e-5).margin(1e-6));
      CHECK(out[2].at(c) == Approx(0.75 * in[4].at(c) + 0.25 * expected[2].at(c)).epsilon(1e-5));
      CHECK(out[3].at(c) == Approx(expected[1].at(c)).epsilon(1e-5).margin(1e-6));
      CHECK(out[4].at(c) == Approx(1 / std::sqrt(expected[2].at(c) + 1e-5)).epsilon(1e-5));
    }
  }
}

TEST_CASE("the variance of samples far from zero is right in f32") {
  auto in = batch_norm_inputs(DType::f32, {40, 3, 9, 5}, 999, 1001);
  const auto expected = naive_batch_norm(in, true, 1e-5);
  const auto out = run("BatchNormalization", in, kTraining, 5);
  for (int64_t c = 0; c < 3; ++c) {
    CHECK(out[3].at(c) == Approx(expected[1].at(c)).epsilon(1e-6));
    CHECK(out[4].at(c) == Approx(1 / std::sqrt(expected[2].at(c) + 1e-5)).epsilon(1e-5));
  }
}

TEST_CASE("the running variance is the population's, or the sample's where asked") {
  const std::vector<Tensor> in = {Tensor::of<float>({2, 1}, {1, 3}), Tensor::of<float>({1}, {1}),
                                  Tensor::of<float>({1}, {0}), Tensor::of<float>({1}, {0}),
                                  Tensor::of<float>({1}, {0})};
  CHECK(run("BatchNormalization", in, {{"training_mode", int64_t{1}}, {"momentum", 0.0}}, 3)[2].at(
            0) == 1);
  CHECK(run("BatchNormalization", in,
            {{"training_mode", int64_t{1}}, {"momentum", 0.0}, {"leat_unbiased", int64_t{1}}}, 3)[2]
            .at(0) == 2);
}

TEST_CASE("BatchNormalization computes f16 and bf16 in float, and parameters may be wider") {
  for (const auto& [dtype, rtol] : {std::pair{DType::f16, 2e-3}, {DType::bf16, 2e-2}}) {
    for (const Shape& shape : {Shape{6, 5}, Shape{3, 5, 50, 60}}) {
      auto in = batch_norm_inputs(DType::f32, shape);
      in[0] = in[0].cast(dtype);
      const Tensor expected = naive_batch_norm(in, true, 1e-5)[0].cast(dtype);
      check_close(run1("BatchNormalization", in, kTraining), expected, rtol, rtol);
      const auto grads = run(
          "leat.BatchNormalizationGrad",
          {in[0], in[0], in[1], Tensor(DType::f32, {5}), Tensor::of<float>({5}, {1, 1, 1, 1, 1})},
          {}, 3);
      CHECK(grads[0].dtype() == dtype);
      CHECK(grads[1].dtype() == DType::f32);
    }
  }
}

TEST_CASE("BatchNormalization and its gradient take channels16") {
  for (const Shape& shape : {Shape{3, 32, 5, 4}, Shape{2, 16, 1, 1}, Shape{2, 16, 30, 9}}) {
    const auto in = batch_norm_inputs(DType::f32, shape);
    check_channels16("BatchNormalization", in);
    check_channels16("BatchNormalization", in, kTraining, 5, 1e-5, 2e-5);
    const auto statistics = run("BatchNormalization", in, kTraining, 5);
    check_channels16(
        "leat.BatchNormalizationGrad",
        {random_tensor(DType::f32, shape, 9), in[0], in[1], statistics[3], statistics[4]},
        kTraining, 3, 1e-4, 2e-5);
  }
}

TEST_CASE("BatchNormalization does not depend on tiles") {
  for (const Shape& shape : {Shape{70, 33}, Shape{7, 5, 6, 3}}) {
    const auto in = batch_norm_inputs(DType::f32, shape);
    check_tiles("BatchNormalization", in);
    check_tiles("BatchNormalization", in, kTraining, 5);
    check_tiles("leat.BatchNormalizationGrad",
                {random_tensor(DType::f32, shape, 9), in[0], in[1], in[3], in[4]}, kTraining, 3);
  }
}

TEST_CASE("wrong operands of BatchNormalization are refused") {
  auto in = batch_norm_inputs(DType::f32, {2, 3});
  CHECK_THAT(run_error("BatchNormalization", in, {}, 2).message(),
             Catch::Contains("expected training_mode=1"));
  in[2] = Tensor(DType::f32, {2});
  CHECK_THAT(
      run_error("BatchNormalization", in).message(),
      Catch::Contains("input 2: expected one value for each channel of [2,3], received shape [2]"));
  in[0] = Tensor(DType::f32, {2});
  CHECK_THAT(run_error("BatchNormalization", in).message(), Catch::Contains("expected [N,C,...]"));
}

TEST_CASE("gradients of BatchNormalization agree with finite differences") {
  for (const Shape& shape : {Shape{4, 3}, Shape{3, 2, 2, 3}}) {
    check_gradients("BatchNormalization", batch_norm_inputs(DType::f64, shape), kTraining,
                    {0, 1, 2});
    check_gradients("BatchNormalization", batch_norm_inputs(DType::f64, shape), {},
                    {0, 1, 2, 3, 4});
  }
}

std::vector<Tensor> layer_norm_inputs(DType dtype, const Shape& shape, int axis) {
  Shape rest;
  for (int i = axis; i < shape.rank(); ++i) rest.push_back(shape[i]);
  return {random_tensor(dtype, shape, 1), random_tensor(dtype, rest, 2, 0.5, 2),
          random_tensor(dtype, rest, 3)};
}

Tensor naive_layer_norm(const std::vector<Tensor>& in, double epsilon) {
  const int64_t n = in[1].elements(), lines = in[0].elements() / n;
  Tensor y(DType::f64, in[0].shape());
  for (int64_t line = 0; line < lines; ++line) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i) mean += in[0].at(line * n + i) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i)
      variance += std::pow(in[0].at(line * n + i) - mean, 2) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      const double value =
          (in[0].at(line * n + i) - mean) / std::sqrt(variance + epsilon) * in[1].at(i);
      y.set(line * n + i, value + (in[2].valid() ? in[2].at(i) : 0));
    }
  }
  return y;
}

TEST_CASE("LayerNormalization agrees with its definition over any trailing axes") {
  for (const Shape& shape : {Shape{5, 3, 40}, Shape{2, 1, 5000}, Shape{33, 2, 1}}) {
    for (int axis = 0; axis < 3; ++axis) {
      for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        auto in = layer_norm_inputs(dtype, shape, axis);
        const double tolerance = dtype == DType::f32   ? 2e-5
                                 : dtype == DType::f64 ? 1e-12
                                 : dtype == DType::f16 ? 2e-3
                                                       : 2e-2;
        check_close(run1("LayerNormalization", in, {{"axis", int64_t{axis - 3}}}),
                    naive_layer_norm(in, 1e-5).cast(dtype), tolerance, tolerance);
        in[2] = Tensor();
        check_close(run1("LayerNormalization", in, {{"axis", int64_t{axis}}, {"epsilon", 1e-3}}),
                    naive_layer_norm(in, 1e-3).cast(dtype), tolerance, tolerance);
      }
    }
  }
  const auto out =
      run("LayerNormalization", {Tensor::of<float>({1, 2}, {1, 3}), Tensor::of<float>({2}, {1, 1})},
          {{"epsilon", 0.0}}, 3);
  check_identical(out[0], Tensor::of<float>({1, 2}, {-1, 1}));
  check_identical(out[1], Tensor::of<float>({1, 1}, {2}));
  check_identical(out[2], Tensor::of<float>({1, 1}, {1}));
}

TEST_CASE("LayerNormalization and its gradient are cut into rows") {
  const auto in = layer_norm_inputs(DType::f32, {7, 5, 40}, 2);
  check_tiles("LayerNormalization", in, {}, 3);
  const auto statistics = run("LayerNormalization", in, {}, 3);
  check_tiles(
      "leat.LayerNormalizationGrad",
      {random_tensor(DType::f32, {7, 5, 40}, 9), in[0], in[1], statistics[1], statistics[2]}, {},
      3);
}

TEST_CASE("wrong operands of LayerNormalization are refused") {
  auto in = layer_norm_inputs(DType::f32, {2, 3}, 1);
  CHECK_THAT(run_error("LayerNormalization", {in[0], Tensor(DType::f32, {2})}).message(),
             Catch::Contains("from axis 1 on, received [2]"));
  CHECK_THAT(run_error("LayerNormalization", in, {{"axis", int64_t{2}}}).message(),
             Catch::Contains("expected in [-2, 1]"));
}

TEST_CASE("gradients of LayerNormalization agree with finite differences") {
  for (int axis = 0; axis < 3; ++axis) {
    auto in = layer_norm_inputs(DType::f64, {3, 2, 4}, axis);
    check_gradients("LayerNormalization", in, {{"axis", int64_t{axis}}}, {0, 1, 2}, 1, 1e-5);
    in.pop_back();
    check_gradients("LayerNormalization", in, {{"axis", int64_t{axis}}}, {0, 1}, 1, 1e-5);
  }
  check_gradients("LayerNormalization", layer_norm_inputs(DType::f64, {40, 3}, 1), {}, {1, 2});
}

}  // namespace
}  // namespace leat
