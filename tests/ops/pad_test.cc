#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor row(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}
Attrs mode(const std::string& name) { return {{"mode", name}}; }

TEST_CASE("Pad shows a constant, the reflection, the edge or the other end") {
  const Tensor x = row({1, 2, 3});
  check_identical(run1("Pad", {x, ints({2, 1})}), row({0, 0, 1, 2, 3, 0}));
  check_identical(run1("Pad", {x, ints({2, 1}), Tensor::scalar(9.f)}), row({9, 9, 1, 2, 3, 9}));
  check_identical(run1("Pad", {x, ints({2, 2})}, mode("reflect")), row({3, 2, 1, 2, 3, 2, 1}));
  check_identical(run1("Pad", {x, ints({2, 1})}, mode("edge")), row({1, 1, 1, 2, 3, 3}));
  check_identical(run1("Pad", {x, ints({2, 4})}, mode("wrap")), row({2, 3, 1, 2, 3, 1, 2, 3, 1}));
  check_identical(run1("Pad", {x, ints({0, 0})}), x);
}

TEST_CASE("a negative pad cuts") {
  const Tensor x = row({1, 2, 3, 4});
  check_identical(run1("Pad", {x, ints({-1, 2})}), row({2, 3, 4, 0, 0}));
  check_identical(run1("Pad", {x, ints({-1, -2})}), row({2}));
  check_identical(run1("Pad", {x, ints({-1, 1})}, mode("edge")), row({2, 3, 4, 4}));
  check_identical(run1("Pad", {x, ints({-6, 3})}), row({0}));
}

TEST_CASE("Pad works on several axes and on those that are named") {
  const Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  check_identical(run1("Pad", {x, ints({1, 0, 0, 1})}),
                  Tensor::of<float>({3, 3}, {0, 0, 0, 1, 2, 0, 3, 4, 0}));
  check_identical(run1("Pad", {x, ints({0, 1}), Tensor(), ints({-1})}),
                  Tensor::of<float>({2, 3}, {1, 2, 0, 3, 4, 0}));
  check_identical(run1("Pad", {x, ints({1, 1, 0, 0})}, mode("reflect")),
                  Tensor::of<float>({3, 3}, {4, 3, 4, 2, 1, 2, 4, 3, 4}));
  const Tensor half = x.cast(DType::f16), one = Tensor::scalar_of(DType::f16, 1);
  check_identical(run1("Pad", {half, ints({1, 0}), one, ints({0})}),
                  Tensor::of<float>({3, 2}, {1, 1, 1, 2, 3, 4}).cast(DType::f16));
  check_identical(run1("Pad", {Tensor::scalar(1.f), Tensor(DType::i64, {0})}), Tensor::scalar(1.f));
  CHECK(run1("Pad", {Tensor(DType::f32, {0, 2}), ints({1, 0, 1, 0})}).shape() == Shape({2, 2}));
}

TEST_CASE("Pad leaves symbols that it does not touch") {
  const Dim n = Dim::of_symbol(1);
  const ValueType x = tensor_type(DType::f32, {n, Dim::of(2)}),
                  pads = tensor_type(DType::i64, Shape({4}));
  const auto touched = infer("Pad", {x, pads}, {}, 1, {Tensor(), ints({0, 1, 0, 1})});
  REQUIRE(touched.ok());
  CHECK(touched->outputs[0].shape == SymbolicShape{n, Dim::of(4)});
  CHECK(infer("Pad", {x, pads})->outputs[0].shape[1].symbol >= 1000);
}

TEST_CASE("gradients of Pad agree with finite differences") {
  const Tensor x = random_tensor(DType::f64, {3, 4}, 1);
  check_gradients("Pad", {x, ints({1, 0, 2, 3})}, {}, {0});
  check_gradients("Pad", {x, ints({1, -1, -1, 2})}, {}, {0});
  check_gradients("Pad", {x, ints({1, 2}), Tensor(), ints({1})}, {}, {0});
  for (const char* name : {"reflect", "edge", "wrap"}) {
    check_gradients("Pad", {x, ints({1, 2, 2, 3})}, mode(name), {0});
    check_gradients("Pad", {x, ints({2, 3}), Tensor(), ints({-1})}, mode(name), {0});
  }
}

TEST_CASE("Pad refuses what it cannot show") {
  const Tensor x(DType::f32, {2, 3});
  CHECK(run_error("Pad", {x, ints({1, 1})}).message() ==
        "Pad: pads: expected 4 values, two for each axis, received 2");
  CHECK(run_error("Pad", {x, ints({0, 0, 0, 0})}, mode("mirror")).message() ==
        "Pad: mode: expected constant, reflect, edge or wrap, received 'mirror'");
  CHECK(run_error("Pad", {x, ints({0, 3, 0, 0})}, mode("reflect")).message() ==
        "Pad: pads: expected less than the axis' size 3 in mode reflect, received 3");
  CHECK(run_error("Pad", {Tensor(DType::f32, {0}), ints({1, 0})}, mode("edge")).code() ==
        Code::invalid_argument);
  CHECK(run_error("Pad", {x, ints({-2, 0, -1, 0})}).message() ==
        "Pad: pads: axis 0 of [2,3] has no size with -2 before and -1 after");
  CHECK(run_error("Pad", {x, ints({0, 0, 0, 0}), Tensor(DType::f32, {2})}).code() ==
        Code::invalid_argument);
  const int64_t least = std::numeric_limits<int64_t>::min();
  CHECK_THAT(run_error("Pad", {Tensor(DType::f32, {4}), ints({least, -(least + 1)})}).message(),
             Catch::Contains("pads: expected at most"));
  CHECK(run_error("leat.PadGrad", {x, ints({2, 2}), ints({0, 2, 0, 0})}, mode("edge")).code() ==
        Code::invalid_argument);
}

}  // namespace
}  // namespace leat::testing
