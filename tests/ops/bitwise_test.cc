// BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot and BitShift; Tan and its kin.
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Attrs direction(const char* name) { return {{"direction", std::string(name)}}; }

TEST_CASE("bitwise ops combine the bits of integers") {
  const Tensor a = Tensor::of<uint8_t>({2, 2}, {0b1100, 0b1010, 255, 0});
  const Tensor b = Tensor::of<uint8_t>({2}, {0b1010, 0b0110});
  check_identical(run1("BitwiseAnd", {a, b}), Tensor::of<uint8_t>({2, 2}, {0b1000, 0b0010, 10, 0}));
  check_identical(run1("BitwiseOr", {a, b}), Tensor::of<uint8_t>({2, 2}, {0b1110, 0b1110, 255, 6}));
  check_identical(run1("BitwiseXor", {a, b}),
                  Tensor::of<uint8_t>({2, 2}, {0b0110, 0b1100, 245, 6}));
  check_identical(run1("BitwiseNot", {Tensor::of<int64_t>({2}, {0, -1})}),
                  Tensor::of<int64_t>({2}, {-1, 0}));
  CHECK_FALSE(run_error("BitwiseAnd", {Tensor(DType::f32, {1}), Tensor(DType::f32, {1})}).ok());
}

TEST_CASE("shifts copy the sign, and lose what leaves the width") {
  const Tensor x = Tensor::of<int8_t>({5}, {64, -64, 1, -1, -128});
  const auto by = [](int8_t n) { return Tensor::of<int8_t>({1}, {n}); };
  const auto shift = [&](const char* to, int8_t n) {
    return run1("BitShift", {x, by(n)}, direction(to));
  };
  check_identical(shift("RIGHT", 1), Tensor::of<int8_t>({5}, {32, -32, 0, -1, -64}));
  check_identical(shift("LEFT", 1), Tensor::of<int8_t>({5}, {-128, -128, 2, -2, 0}));
  for (const int8_t n : {int8_t{8}, int8_t{-1}, int8_t{127}, int8_t{-128}}) {
    check_identical(shift("RIGHT", n), Tensor::of<int8_t>({5}, {0, -1, 0, -1, -1}));
    check_identical(shift("LEFT", n), Tensor::of<int8_t>({5}, {0, 0, 0, 0, 0}));
  }
  const uint64_t top = uint64_t{1} << 63;
  check_identical(
      run1("BitShift", {Tensor::of<uint64_t>({1}, {top}), Tensor::of<uint64_t>({1}, {63})},
           direction("RIGHT")),
      Tensor::of<uint64_t>({1}, {1}));
  CHECK_FALSE(run_error("BitShift", {x, by(1)}, direction("UP")).ok());
}

TEST_CASE("trigonometric functions are the C library's, and differentiate") {
  const Tensor x = Tensor::of<double>({3}, {-0.5, 0, 0.75});
  const auto expect = [&](const char* op, double (*function)(double)) {
    Tensor expected(DType::f64, {3});
    for (int64_t i = 0; i < 3; ++i) expected.set(i, function(x.at(i)));
    check_identical(run1(op, {x}), expected);
    check_gradients(op, {x}, {}, {0});
    check_tiles(op, {random_tensor(DType::f32, {7, 33}, 1, -0.9, 0.9)});
  };
  expect("Tan", std::tan);
  expect("Asin", std::asin);
  expect("Acos", std::acos);
  expect("Atan", std::atan);
  expect("Sinh", std::sinh);
  expect("Cosh", std::cosh);
  expect("Asinh", std::asinh);
  expect("Atanh", std::atanh);
  check_gradients("Acosh", {random_tensor(DType::f64, {2, 3}, 3, 1.5, 4)}, {}, {0});
}

}  // namespace
}  // namespace leat::testing
