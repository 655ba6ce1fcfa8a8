#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor floats(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}
const Attrs kByTanh = {{"approximate", std::string("tanh")}};

TEST_CASE("activations give their formulas' values") {
  const Tensor x = floats({-2, -0.5, 0, 0.5, 3});
  check_identical(run1("Relu", {x}), floats({0, 0, 0, 0.5, 3}));
  check_close(run1("LeakyRelu", {x}), floats({-0.02f, -0.005f, 0, 0.5, 3}));
  check_close(run1("LeakyRelu", {x}, {{"alpha", 0.5}}), floats({-1, -0.25, 0, 0.5, 3}));
  check_close(run1("Sigmoid", {x}),
              floats({0.11920292f, 0.37754067f, 0.5, 0.62245933f, 0.95257413f}));
  check_close(run1("Tanh", {x}), floats({-0.96402758f, -0.46211716f, 0, 0.46211716f, 0.99505475f}));
  check_close(run1("Gelu", {x}), floats({-0.04550026f, -0.15426877f, 0, 0.34573123f, 2.9959502f}));
  check_close(run1("Gelu", {x}, kByTanh),
              floats({-0.04540231f, -0.15428599f, 0, 0.34571401f, 2.9963627f}));
  check_close(run1("Elu", {x}), floats({-0.86466472f, -0.39346934f, 0, 0.5, 3}));
  check_close(run1("Softplus", {x}),
              floats({0.12692801f, 0.47407698f, 0.69314718f, 0.97407698f, 3.0485874f}));
  check_close(run1("HardSigmoid", {x}), floats({0.1f, 0.4f, 0.5, 0.6f, 1}));
  check_identical(run1("Relu", {Tensor::of<int8_t>({3}, {-3, 0, 3})}),
                  Tensor::of<int8_t>({3}, {0, 0, 3}));
}

TEST_CASE("activations keep NaN and the ends of the range") {
  const Tensor x = floats({NAN, INFINITY, -INFINITY, -0.f});
  check_identical(run1("Relu", {floats({-0.f})}), floats({0}));
  check_close(run1("Relu", {x}), floats({NAN, INFINITY, 0, 0}));
  check_close(run1("Sigmoid", {x}), floats({NAN, 1, 0, 0.5}));
  check_close(run1("Tanh", {x}), floats({NAN, 1, -1, 0}));
  check_close(run1("Softplus", {x}), floats({NAN, INFINITY, 0, 0.69314718f}));
  check_close(run1("Gelu", {floats({NAN, 100, -100})}), floats({NAN, 100, 0}));
  check_close(run1("Gelu", {floats({NAN, 100, -100})}, kByTanh), floats({NAN, 100, 0}));
}

TEST_CASE("activations work in every float type") {
  for (DType dtype : {DType::f64, DType::f16, DType::bf16}) {
    const double tolerance = dtype == DType::f64 ? 1e-6 : dtype == DType::f16 ? 2e-3 : 1e-2;
    const Tensor x = random_tensor(DType::f32, {64}, 3, -3, 3).cast(dtype);
    for (std::string_view op :
         {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu", "Elu", "Softplus", "HardSigmoid"}) {
      INFO(op << " " << dtype);
      check_close(run1(op, {x}), run1(op, {x.cast(DType::f32)}).cast(dtype), tolerance, tolerance);
    }
  }
}

TEST_CASE("gradients of activations agree with finite differences") {
  const Tensor x = random_tensor(DType::f64, {4, 5}, 11, -3, 3);
  for (std::string_view op :
       {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu", "Elu", "Softplus", "HardSigmoid"}) {
    check_gradients(op, {x}, {}, {0});
  }
  check_gradients("LeakyRelu", {x}, {{"alpha", 0.3}}, {0});
  check_gradients("Gelu", {x}, kByTanh, {0});
  check_gradients("Elu", {x}, {{"alpha", 2.0}}, {0});
  check_gradients("HardSigmoid", {x}, {{"alpha", 0.5}, {"beta", 0.25}}, {0});
}

TEST_CASE("gradients in f32 agree with those in f64") {
  const Tensor dy = random_tensor(DType::f64, {256}, 1),
               x = random_tensor(DType::f64, {256}, 2, -5, 5);
  for (std::string_view op :
       {"leat.ReluGrad", "leat.LeakyReluGrad", "leat.SigmoidGrad", "leat.TanhGrad", "leat.GeluGrad",
        "leat.EluGrad", "leat.HardSigmoidGrad"}) {
    const Tensor narrow = run1(op, {dy.cast(DType::f32), x.cast(DType::f32)});
    INFO(op);
    check_close(narrow.cast(DType::f64), run1(op, {dy, x}), 1e-4, 1e-5);
  }
  check_close(
      run1("leat.GeluGrad", {dy.cast(DType::f32), x.cast(DType::f32)}, kByTanh).cast(DType::f64),
      run1("leat.GeluGrad", {dy, x}, kByTanh), 1e-4, 1e-5);
}

TEST_CASE("tiles of activations equal the whole, in either layout") {
  const Tensor x = random_tensor(DType::f32, {5, 16, 2, 3}, 1, -3, 3),
               dy = random_tensor(DType::f32, {5, 16, 2, 3}, 2);
  for (std::string_view op :
       {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu", "Elu", "Softplus", "HardSigmoid"}) {
    check_tiles(op, {x});
    check_channels16(op, {x});
  }
  for (std::string_view op :
       {"leat.ReluGrad", "leat.LeakyReluGrad", "leat.SigmoidGrad", "leat.TanhGrad", "leat.GeluGrad",
        "leat.EluGrad", "leat.HardSigmoidGrad"}) {
    check_tiles(op, {dy, x});
    check_channels16(op, {dy, x});
  }
  check_tiles("Gelu", {x}, kByTanh);
  check_tiles("leat.GeluGrad", {dy, x}, kByTanh);
}

TEST_CASE("activations refuse what they cannot take") {
  const Tensor x = floats({1, 2});
  CHECK(run_error("Gelu", {x}, {{"approximate", std::string("tan")}}).message() ==
        "Gelu: approximate: expected 'none' or 'tanh', received 'tan'");
  CHECK(run_error("leat.ReluGrad", {x, floats({1, 2, 3})}).message() ==
        "leat.ReluGrad: expected two operands of one shape, received [2] and [3]");
  CHECK(run_error("Relu", {Tensor::of<uint8_t>({1}, {1})}).code() == Code::invalid_argument);
}

}  // namespace
}  // namespace leat::testing
