#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Ints = std::vector<int64_t>;
TEST_CASE("Slice cuts as numpy does") {
  const Tensor x = counting(DType::f32, {6});
  const int64_t far = std::numeric_limits<int64_t>::max(),
                low = std::numeric_limits<int64_t>::min();
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    const Tensor y = run1("Slice", {x, ints({start}), ints({end}), ints({0}), ints({step})});
    Ints values;
    for (int64_t i = 0; i < y.elements(); ++i) values.push_back(y.int_at(i));
    return values;
  };
  CHECK(slice(1, 4, 1) == Ints{1, 2, 3});
  CHECK(slice(0, far, 1) == Ints{0, 1, 2, 3, 4, 5});
  CHECK(slice(-2, far, 1) == Ints{4, 5});
  CHECK(slice(0, -2, 1) == Ints{0, 1, 2, 3});
  CHECK(slice(1, far, 2) == Ints{1, 3, 5});
  CHECK(slice(0, far, 4) == Ints{0, 4});
  CHECK(slice(-1, low, -1) == Ints{5, 4, 3, 2, 1, 0});
  CHECK(slice(far, 1, -2) == Ints{5, 3});
  CHECK(slice(4, -7, -3) == Ints{4, 1});
  CHECK(slice(4, 2, 1) == Ints{});
  CHECK(slice(2, 4, -1) == Ints{});
  CHECK(slice(low, far, 1) == Ints{0, 1, 2, 3, 4, 5});
  CHECK(slice(3, far, far) == Ints{3});
  CHECK(slice(3, low, low) == Ints{3});
  CHECK(slice(6, 9, 1) == Ints{});
}

TEST_CASE("Slice cuts several axes, in any order, of any type") {
  const Tensor x = counting(DType::i64, {3, 4, 2});
  check_identical(run1("Slice", {x, ints({-1, 1}), ints({-9, 3}), ints({0, 1}), ints({-2, 1})}),
                  Tensor::of<int64_t>({2, 2, 2}, {18, 19, 20, 21, 2, 3, 4, 5}));
  check_identical(run1("Slice", {x, ints({0, 1}), ints({1, 2}), ints({-1, -2})}),
                  Tensor::of<int64_t>({3, 1, 1}, {2, 10, 18}));
  check_identical(run1("Slice", {x, ints({2}), ints({3})}),
                  Tensor::of<int64_t>({1, 4, 2}, {16, 17, 18, 19, 20, 21, 22, 23}));
  const Tensor narrow = Tensor::of<int32_t>({1}, {1}), end = Tensor::of<int32_t>({1}, {2});
  check_identical(run1("Slice", {Tensor::of<bool>({3}, {true, false, true}), narrow, end}),
                  Tensor::of<bool>({1}, {false}));
  for (DType dtype : {DType::f16, DType::u8, DType::f64}) {
    check_identical(run1("Slice", {counting(dtype, {4}), ints({1}), ints({3})}),
                    Tensor::of<float>({2}, {1, 2}).cast(dtype));
  }
}

TEST_CASE("Slice of a symbolic size is that size, or an unknown one") {
  const Dim n = Dim::of_symbol(1);
  const ValueType x = tensor_type(DType::f32, {n, Dim::of(8)}),
                  index = tensor_type(DType::i64, Shape({1}));
  const auto shape = [&](int64_t start, int64_t end, int64_t axis) {
    const auto outcome = infer("Slice", {x, index, index, index}, {}, 1,
                               {Tensor(), ints({start}), ints({end}), ints({axis})});
    REQUIRE(outcome.ok());
    return outcome->outputs[0].shape;
  };
  CHECK(shape(0, std::numeric_limits<int64_t>::max(), 0) == SymbolicShape{n, Dim::of(8)});
  CHECK(shape(2, 5, 1) == SymbolicShape{n, Dim::of(3)});
  CHECK(shape(0, 4, 0)[0].symbol >= 1000);
  const auto unknown = infer("Slice", {x, index, index});
  REQUIRE(unknown.ok());
  CHECK(unknown->outputs[0].shape[0].symbol >= 1000);
  CHECK(unknown->outputs[0].shape[1] == Dim::of(8));
}

TEST_CASE("gradients of Slice agree with finite differences") {
  const Tensor x = random_tensor(DType::f64, {4, 5}, 1);
  check_gradients("Slice", {x, ints({1}), ints({3}), ints({1})}, {}, {0});
  check_gradients("Slice", {x, ints({-1, 4}), ints({-9, 0}), ints({0, 1}), ints({-2, -3})}, {},
                  {0});
  check_gradients("Slice", {x, ints({0}), ints({4})}, {}, {0});
}

TEST_CASE("a large Slice and its gradient are cut into tiles that do not meet") {
  const Tensor x = random_tensor(DType::f32, {200, 700}, 1);
  const std::vector<Tensor> cut = {ints({690, 199}), ints({3, 0}), ints({1, 0}), ints({-3, -1})};
  const Tensor y = run1("Slice", {x, cut[0], cut[1], cut[2], cut[3]});
  REQUIRE(y.shape() == Shape({199, 229}));
  for (int64_t i = 0; i < y.elements(); ++i) {
    if (y.at(i) != x.at((199 - i / 229) * 700 + 690 - 3 * (i % 229))) FAIL("element " << i);
  }
  const Tensor dx = run1("leat.SliceGrad", {y, ints({200, 700}), cut[0], cut[1], cut[2], cut[3]});
  check_identical(run1("Slice", {dx, cut[0], cut[1], cut[2], cut[3]}), y);
  double sum = 0, expected = 0;
  for (int64_t i = 0; i < dx.elements(); ++i) sum += std::abs(dx.at(i));
  for (int64_t i = 0; i < y.elements(); ++i) expected += std::abs(y.at(i));
  CHECK(sum == Approx(expected));
}

TEST_CASE("Slice refuses bounds that make no sense") {
  const Tensor x(DType::f32, {3, 4});
  CHECK(run_error("Slice", {x, ints({0}), ints({1}), ints({2})}).message() ==
        "Slice: axis: expected in [-2, 1] for rank 2, received 2");
  CHECK(run_error("Slice", {x, ints({0}), ints({1}), ints({0}), ints({0})}).message() ==
        "Slice: steps: expected no 0");
  CHECK(run_error("Slice", {x, ints({0}), ints({1, 2})}).message() ==
        "Slice: starts, ends, axes and steps: expected equal lengths, received 1 and 2");
  CHECK(run_error("Slice", {x, ints({0, 0}), ints({1, 1}), ints({1, -1})}).code() ==
        Code::invalid_argument);
  CHECK(run_error("Slice", {x, ints({0, 0, 0}), ints({1, 1, 1})}).code() == Code::invalid_argument);
  CHECK(run_error("leat.SliceGrad", {x, ints({3, 5}), ints({0}), ints({3}), ints({1})}).message() ==
        "leat.SliceGrad: expected [3,3] to be left of [3,5], received [3,4]");
}

}  // namespace
}  // namespace leat::testing
