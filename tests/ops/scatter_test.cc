// ScatterElements, ScatterND, GatherND, Range, Trilu, CumSum, CumProd and TopK.
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Ints = std::vector<int64_t>;
Tensor whole_tensor(const Shape& shape, const Ints& values) {
  return Tensor::of<int64_t>(shape, values);
}
Attrs reduction(const char* name, int64_t axis = 0) {
  return {{"reduction", std::string(name)}, {"axis", axis}};
}
Attrs reduction_nd(const char* name) { return {{"reduction", std::string(name)}}; }

TEST_CASE("ScatterElements replaces or combines the elements that the indices name") {
  const Tensor x = Tensor::of<float>({3}, {1, 2, 3}), at = whole_tensor({2}, {1, -2});
  const Tensor updates = Tensor::of<float>({2}, {5, 7});
  check_identical(run1("ScatterElements", {x, at, updates}), Tensor::of<float>({3}, {1, 7, 3}));
  check_identical(run1("ScatterElements", {x, at, updates}, reduction("add")),
                  Tensor::of<float>({3}, {1, 14, 3}));
  check_identical(run1("ScatterElements", {x, at, updates}, reduction("mul")),
                  Tensor::of<float>({3}, {1, 70, 3}));
  check_identical(run1("ScatterElements", {x, at, updates}, reduction("min")),
                  Tensor::of<float>({3}, {1, 2, 3}));
  check_identical(run1("ScatterElements", {x, at, updates}, reduction("max")),
                  Tensor::of<float>({3}, {1, 7, 3}));
  check_identical(run1("ScatterElements",
                       {Tensor::of<int32_t>({2, 2}, {0, 0, 0, 0}), whole_tensor({1, 2}, {1, 0}),
                        Tensor::of<int32_t>({1, 2}, {8, 9})},
                       reduction("none", -1)),
                  Tensor::of<int32_t>({2, 2}, {9, 8, 0, 0}));
  check_identical(run1("ScatterElements", {x, Tensor(DType::i64, {0}), Tensor(DType::f32, {0})}),
                  x);
  for (DType dtype : {DType::f16, DType::bf16, DType::u8, DType::i64}) {
    check_identical(
        run1("ScatterElements", {x.cast(dtype), at, updates.cast(dtype)}, reduction("add")),
        Tensor::of<float>({3}, {1, 14, 3}).cast(dtype));
  }
}

TEST_CASE("ScatterND and GatherND take tuples of indices") {
  const Tensor x = Tensor::of<float>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  check_identical(run1("GatherND", {x, whole_tensor({2, 2}, {0, 1, 1, 0})}),
                  Tensor::of<float>({2, 2}, {2, 3, 4, 5}));
  check_identical(run1("GatherND", {x, whole_tensor({2, 1, 3}, {0, 0, 1, -1, -1, -1})}),
                  Tensor::of<float>({2, 1}, {1, 7}));
  check_identical(run1("GatherND", {x, whole_tensor({2, 1}, {1, 0})}, {{"batch_dims", int64_t{1}}}),
                  Tensor::of<float>({2, 2}, {2, 3, 4, 5}));
  CHECK(run1("GatherND", {x, Tensor(DType::i64, {0, 2})}).shape() == Shape({0, 2}));

  const Tensor lines = Tensor::of<float>({2, 2}, {10, 20, 30, 40});
  check_identical(
      run1("ScatterND", {Tensor(DType::f32, {3, 2}), whole_tensor({2, 1}, {2, 0}), lines}),
      Tensor::of<float>({3, 2}, {30, 40, 0, 0, 10, 20}));
  // Several updates of one line are done in their order.
  const Tensor twice = whole_tensor({2, 1}, {1, 1});
  const Tensor ones = Tensor::of<float>({2, 2}, {1, 1, 1, 1});
  check_identical(run1("ScatterND", {ones, twice, lines}),
                  Tensor::of<float>({2, 2}, {1, 1, 30, 40}));
  check_identical(run1("ScatterND", {ones, twice, lines}, reduction_nd("add")),
                  Tensor::of<float>({2, 2}, {1, 1, 41, 61}));
  check_identical(run1("ScatterND", {ones, twice, lines}, reduction_nd("mul")),
                  Tensor::of<float>({2, 2}, {1, 1, 300, 800}));
}

TEST_CASE("scatters and tuples have the gradients of finite differences") {
  const auto x = [](const Shape& shape, uint64_t seed) {
    return random_tensor(DType::f64, shape, seed, -2, 2);
  };
  const Tensor each = whole_tensor({2, 3}, {0, 1, -1, 2, 0, 1});
  for (const char* how : {"none", "add"}) {
    check_gradients("ScatterElements", {x({2, 3}, 1), each, x({2, 3}, 2)}, reduction(how, -1),
                    {0, 2});
    check_gradients("ScatterND", {x({4, 1}, 3), whole_tensor({2, 1}, {3, -4}), x({2, 1}, 4)},
                    reduction_nd(how), {0, 2});
  }
  // With `add`, an element may be named twice.
  check_gradients("ScatterND", {x({3, 2}, 5), whole_tensor({3, 1}, {1, 1, 0}), x({3, 2}, 6)},
                  reduction_nd("add"), {0, 2});
  check_gradients("GatherND", {x({3, 2, 2}, 7), whole_tensor({3, 2}, {0, 1, 2, 0, 0, 1})}, {}, {0});
  check_gradients("GatherND", {x({2, 3, 1}, 8), whole_tensor({2, 1}, {2, -3})},
                  {{"batch_dims", int64_t{1}}}, {0});
  check_gradients("CumSum", {x({2, 5}, 9), Tensor::scalar<int64_t>(-1)},
                  {{"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}, {0});
  check_gradients("CumSum", {x({4, 1, 2}, 10), Tensor::scalar<int32_t>(0)}, {}, {0});
  check_gradients("Trilu", {x({2, 3, 4}, 11), Tensor::scalar<int64_t>(-1)}, {}, {0});
  check_gradients("Trilu", {x({3, 3}, 12)}, {{"upper", int64_t{0}}}, {0});
  check_gradients("TopK", {x({3, 6}, 13), whole_tensor({1}, {2})}, {}, {0});
  check_gradients("TopK", {x({4, 3}, 14), whole_tensor({1}, {3})},
                  {{"axis", int64_t{0}}, {"largest", int64_t{0}}}, {0});
}

TEST_CASE("Range counts up and down, and is known when its operands are") {
  const auto range = [](auto start, decltype(start) limit, decltype(start) delta) {
    return run1("Range", {Tensor::scalar(start), Tensor::scalar(limit), Tensor::scalar(delta)});
  };
  check_identical(range(int64_t{1}, 8, 3), whole_tensor({3}, {1, 4, 7}));
  check_identical(range(int32_t{10}, 4, -2), Tensor::of<int32_t>({3}, {10, 8, 6}));
  check_identical(range(1.0f, 2.0f, 0.5f), Tensor::of<float>({2}, {1, 1.5f}));
  CHECK(range(int64_t{5}, 5, 1).shape() == Shape({0}));
  CHECK(range(int64_t{5}, 6, -1).shape() == Shape({0}));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  check_identical(range(kMost - 2, kMost, int64_t{1}), whole_tensor({2}, {kMost - 2, kMost - 1}));
}

TEST_CASE("Trilu keeps one side of a diagonal") {
  const Tensor x = whole_tensor({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto part = [&](int64_t k, int64_t upper) {
    return run1("Trilu", {x, Tensor::scalar(k)}, {{"upper", upper}});
  };
  check_identical(run1("Trilu", {x}), whole_tensor({3, 3}, {1, 2, 3, 0, 5, 6, 0, 0, 9}));
  check_identical(part(0, 0), whole_tensor({3, 3}, {1, 0, 0, 4, 5, 0, 7, 8, 9}));
  check_identical(part(1, 1), whole_tensor({3, 3}, {0, 2, 3, 0, 0, 6, 0, 0, 0}));
  check_identical(part(-1, 0), whole_tensor({3, 3}, {0, 0, 0, 4, 0, 0, 7, 8, 0}));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  check_identical(part(kMost, 0), x);
  check_identical(part(-kMost, 1), x);
  CHECK(run1("Trilu", {Tensor(DType::f32, {0, 2, 3})}).shape() == Shape({0, 2, 3}));
}

TEST_CASE("CumSum adds along an axis, in either direction") {
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto sum = [&](int64_t axis, int64_t exclusive, int64_t reverse) {
    return run1("CumSum", {x, Tensor::scalar(axis)},
                {{"exclusive", exclusive}, {"reverse", reverse}});
  };
  check_identical(sum(1, 0, 0), Tensor::of<float>({2, 3}, {1, 3, 6, 4, 9, 15}));
  check_identical(sum(0, 0, 0), Tensor::of<float>({2, 3}, {1, 2, 3, 5, 7, 9}));
  check_identical(sum(-1, 1, 0), Tensor::of<float>({2, 3}, {0, 1, 3, 0, 4, 9}));
  check_identical(sum(1, 0, 1), Tensor::of<float>({2, 3}, {6, 5, 3, 15, 11, 6}));
  check_identical(sum(1, 1, 1), Tensor::of<float>({2, 3}, {5, 3, 0, 11, 6, 0}));
}

TEST_CASE("CumProd multiplies along an axis, and zeros have gradients") {
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto product = [&](const Tensor& of, int64_t axis, int64_t exclusive, int64_t reverse) {
    return run1("CumProd", {of, Tensor::scalar(axis)},
                {{"exclusive", exclusive}, {"reverse", reverse}});
  };
  check_identical(product(x, 1, 0, 0), Tensor::of<float>({2, 3}, {1, 2, 6, 4, 20, 120}));
  check_identical(product(x, 0, 0, 0), Tensor::of<float>({2, 3}, {1, 2, 3, 4, 10, 18}));
  check_identical(product(x, -1, 1, 0), Tensor::of<float>({2, 3}, {1, 1, 2, 1, 4, 20}));
  check_identical(product(x, 1, 0, 1), Tensor::of<float>({2, 3}, {6, 6, 3, 120, 30, 6}));
  check_identical(product(x, 1, 1, 1), Tensor::of<float>({2, 3}, {6, 3, 1, 30, 6, 1}));
  check_identical(product(whole_tensor({3}, {2, -3, 4}), 0, 0, 0), whole_tensor({3}, {2, -6, -24}));
  CHECK(product(Tensor(DType::f32, {0, 3}), 1, 0, 0).shape() == Shape({0, 3}));
  // No zero, one and two of them in a line; the product of what is around them has a gradient.
  const Tensor lines = Tensor::of<double>({3, 4}, {2, -1, 3, 0.5, 2, 0, 3, 0.5, 0, 4, 0, 5});
  for (const int64_t exclusive : {0, 1}) {
    for (const int64_t reverse : {0, 1}) {
      check_gradients("CumProd", {lines, Tensor::scalar<int64_t>(1)},
                      {{"exclusive", exclusive}, {"reverse", reverse}}, {0});
      check_gradients("CumProd", {lines, Tensor::scalar<int64_t>(0)},
                      {{"exclusive", exclusive}, {"reverse", reverse}}, {0});
    }
  }
}

TEST_CASE("TopK takes the largest or smallest, and the first of equal ones") {
  const Tensor x = Tensor::of<float>({2, 4}, {1, 3, 3, 2, -1, -5, 0, -5});
  const auto top = [&](int64_t k, Attrs attrs) {
    return run("TopK", {x, whole_tensor({1}, {k})}, std::move(attrs), 2);
  };
  const auto largest = top(3, {});
  check_identical(largest[0], Tensor::of<float>({2, 3}, {3, 3, 2, 0, -1, -5}));
  check_identical(largest[1], whole_tensor({2, 3}, {1, 2, 3, 2, 0, 1}));
  const auto smallest = top(2, {{"largest", int64_t{0}}});
  check_identical(smallest[0], Tensor::of<float>({2, 2}, {1, 2, -5, -5}));
  check_identical(smallest[1], whole_tensor({2, 2}, {0, 3, 1, 3}));
  const auto columns = top(1, {{"axis", int64_t{0}}});
  check_identical(columns[1], whole_tensor({1, 4}, {0, 0, 0, 0}));
  CHECK(top(0, {})[0].shape() == Shape({2, 0}));
}

TEST_CASE("indices out of range and operands that do not fit are refused") {
  const Tensor x = Tensor::of<float>({3}, {1, 2, 3}), one = Tensor::of<float>({1}, {9});
  for (const int64_t index : {int64_t{3}, int64_t{-4}, std::numeric_limits<int64_t>::min()}) {
    const Status scatter = run_error("ScatterElements", {x, whole_tensor({1}, {index}), one});
    CHECK(scatter.message().find("expected an index in [-3, 2], received") != std::string::npos);
    CHECK_FALSE(run_error("ScatterND", {x, whole_tensor({1, 1}, {index}), one}).ok());
    CHECK_FALSE(run_error("GatherND", {x, whole_tensor({1, 1}, {index})}).ok());
  }
  CHECK_FALSE(run_error("ScatterElements", {x, whole_tensor({2}, {0, 1}), one}).ok());
  CHECK_FALSE(
      run_error("ScatterElements", {x, whole_tensor({1}, {0}), one}, reduction("sum")).ok());
  CHECK_FALSE(run_error("ScatterND", {x, whole_tensor({1, 2}, {0, 1}), one}).ok());
  CHECK_FALSE(run_error("CumSum", {x, Tensor::scalar<int64_t>(1)}).ok());
  CHECK_FALSE(run_error("Trilu", {x}).ok());
  CHECK_FALSE(run_error("TopK", {x, whole_tensor({1}, {4})}).ok());
  const Tensor zero = Tensor::scalar<int64_t>(0), five = Tensor::scalar<int64_t>(5);
  CHECK_FALSE(run_error("Range", {zero, five, zero}).ok());
}

}  // namespace
}  // namespace leat::testing
