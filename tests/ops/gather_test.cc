#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using Ints = std::vector<int64_t>;
Tensor int_tensor(const Shape& shape, const Ints& values) {
  return Tensor::of<int64_t>(shape, values);
}
Attrs axis(int64_t value) { return {{"axis", value}}; }

TEST_CASE("Gather reads lines along an axis") {
  const Tensor x = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  check_identical(run1("Gather", {x, int_tensor({2, 2}, {0, 1, 1, 2})}),
                  Tensor::of<float>({2, 2, 2}, {1, 2, 3, 4, 3, 4, 5, 6}));
  check_identical(run1("Gather", {x, int_tensor({1, 2}, {1, 0})}, axis(1)),
                  Tensor::of<float>({3, 1, 2}, {2, 1, 4, 3, 6, 5}));
  check_identical(run1("Gather", {x, int_tensor({2}, {-1, -3})}),
                  Tensor::of<float>({2, 2}, {5, 6, 1, 2}));
  check_identical(run1("Gather", {x, Tensor::scalar<int32_t>(1)}), Tensor::of<float>({2}, {3, 4}));
  check_identical(run1("Gather", {x, Tensor::scalar<int32_t>(1)}, axis(-1)),
                  Tensor::of<float>({3}, {2, 4, 6}));
  check_identical(run1("Gather", {int_tensor({3}, {7, 8, 9}), Tensor::scalar<int64_t>(2)}),
                  Tensor::scalar<int64_t>(9));
  CHECK(run1("Gather", {x, Tensor(DType::i64, {0})}).shape() == Shape({0, 2}));
  for (DType dtype : {DType::f64, DType::bf16, DType::i8, DType::boolean}) {
    check_identical(
        run1("Gather", {Tensor::of<float>({2}, {0, 1}).cast(dtype), int_tensor({3}, {1, 0, 1})}),
        Tensor::of<float>({3}, {1, 0, 1}).cast(dtype));
  }
}

TEST_CASE("Gather infers symbols of both sides") {
  const Dim n = Dim::of_symbol(1), t = Dim::of_symbol(2);
  const auto outcome = infer("Gather", {tensor_type(DType::f32, {Dim::of(100), Dim::of(16)}),
                                        tensor_type(DType::i64, {n, t})});
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[0].shape == SymbolicShape{n, t, Dim::of(16)});
}

TEST_CASE("GatherElements reads one element for each index") {
  const Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  check_identical(run1("GatherElements", {x, int_tensor({2, 2}, {0, 0, 1, 0})}, axis(1)),
                  Tensor::of<float>({2, 2}, {1, 1, 4, 3}));
  check_identical(run1("GatherElements", {x, int_tensor({1, 2}, {1, -2})}),
                  Tensor::of<float>({1, 2}, {3, 2}));
}

TEST_CASE("OneHot sets one value on its axis") {
  const Tensor depth = Tensor::scalar<int64_t>(3), values = Tensor::of<float>({2}, {-1, 1});
  check_identical(run1("OneHot", {int_tensor({2}, {0, 2}), depth, values}),
                  Tensor::of<float>({2, 3}, {1, -1, -1, -1, -1, 1}));
  check_identical(run1("OneHot", {int_tensor({2}, {-1, 5}), depth, values}, axis(0)),
                  Tensor::of<float>({3, 2}, {-1, -1, -1, -1, 1, -1}));
  check_identical(run1("OneHot", {Tensor::of<float>({1}, {1}), Tensor::of<float>({1}, {2}),
                                  Tensor::of<int32_t>({2}, {0, 5})}),
                  Tensor::of<int32_t>({1, 2}, {0, 5}));
  const Tensor odd = Tensor::of<float>({3}, {NAN, 1e30f, -1});
  check_identical(run1("OneHot", {odd, Tensor::scalar<int64_t>(1), values}),
                  Tensor::of<float>({3, 1}, {-1, -1, 1}));
}

TEST_CASE("gradients of reads by index agree with finite differences") {
  const Tensor x = random_tensor(DType::f64, {4, 3, 2}, 1);
  check_gradients("Gather", {x, int_tensor({2, 3}, {0, 3, 0, -1, 1, 0})}, {}, {0});
  check_gradients("Gather", {x, int_tensor({4}, {0, 2, 2, -3})}, axis(1), {0});
  check_gradients("Gather", {x, int_tensor({2, 1}, {1, 1})}, axis(-1), {0});
  check_gradients("Gather", {x, Tensor::scalar<int32_t>(2)}, {}, {0});
  check_gradients("GatherElements",
                  {x, int_tensor({2, 3, 2}, {0, 1, 2, 3, -1, -2, 0, 0, 0, 0, 0, 0})}, {}, {0});
  check_gradients("GatherElements",
                  {x, int_tensor({4, 3, 1}, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1})}, axis(2), {0});
}

TEST_CASE("a table's gradient sums in the order of the indices, whatever its tiles") {
  constexpr int64_t kRows = 3000, kWidth = 40, kReads = 500;
  const Tensor dy = random_tensor(DType::f32, {kReads, kWidth}, 1);
  const Tensor indices = random_tensor(DType::i64, {kReads}, 2, 0, 60);  // many are equal
  Tensor expected(DType::f32, {kRows, kWidth});
  for (int64_t j = 0; j < kReads; ++j) {
    for (int64_t i = 0; i < kWidth; ++i) {
      expected.data<float>()[indices.int_at(j) * 49 * kWidth + i] +=
          dy.data<float>()[j * kWidth + i];
    }
  }
  Tensor spread(DType::i64, {kReads});
  for (int64_t j = 0; j < kReads; ++j) spread.set(j, static_cast<double>(indices.int_at(j) * 49));
  for (bool reverse : {false, true}) {
    InterpretOptions options;
    options.reverse_tiles = reverse;
    check_identical(
        run("leat.GatherGrad", {dy, spread, int_tensor({2}, {kRows, kWidth})}, {}, 1, options)[0],
        expected);
  }
  const Tensor wide =
      run1("leat.GatherGrad",
           {dy, int_tensor({kWidth}, Ints(kWidth, 1)), int_tensor({2}, {kReads, 3})}, axis(1));
  CHECK(wide.shape() == Shape({kReads, 3}));
  CHECK(wide.at(0) == 0);
}

TEST_CASE("tiles of Gather equal the whole") {
  const Tensor x = random_tensor(DType::f32, {7, 5}, 1);
  check_tiles("Gather", {x, int_tensor({8}, {0, 6, 2, 2, 5, 1, -1, 3})});
  check_tiles("Gather", {x, int_tensor({4, 2}, {0, 6, 2, 2, 5, 1, -1, 3})});
  check_tiles("Gather", {x, int_tensor({3}, {0, 4, 2})}, axis(1));
}

TEST_CASE("a read at an index out of range fails the step") {
  const Tensor x(DType::f32, {3, 2});
  CHECK(run_error("Gather", {x, int_tensor({2}, {0, 3})}).message() ==
        "Gather: expected an index in [-3, 2], received 3 as element 1");
  CHECK(run_error("Gather", {x, int_tensor({1}, {-3})}, axis(1)).code() == Code::invalid_argument);
  CHECK(run_error("Gather", {Tensor(DType::f32, {0, 2}), int_tensor({1}, {0})}).code() ==
        Code::invalid_argument);
  CHECK(run_error("GatherElements", {x, int_tensor({1, 1}, {3})}).code() == Code::invalid_argument);
  CHECK(run_error("leat.GatherGrad", {x, int_tensor({3}, {0, 1, 4}), int_tensor({2}, {4, 2})})
            .code() == Code::invalid_argument);
}

TEST_CASE("reads by index refuse shapes that do not fit") {
  const Tensor x(DType::f32, {3, 2});
  CHECK(run_error("Gather", {x, int_tensor({1}, {0})}, axis(2)).message() ==
        "Gather: axis: expected in [-2, 1] for rank 2, received 2");
  CHECK(run_error("Gather", {Tensor::scalar(1.f), int_tensor({1}, {0})}).code() ==
        Code::invalid_argument);
  CHECK(run_error("GatherElements", {x, int_tensor({1, 3}, {0, 0, 0})}).message() ==
        "GatherElements: expected indices of data's rank and, but for axis 0, no larger: data is "
        "[3,2], indices are [1,3]");
  CHECK(run_error("leat.GatherGrad", {x, int_tensor({2}, {0, 1}), int_tensor({2}, {4, 2})})
            .message() ==
        "leat.GatherGrad: a gradient of [3,2] does not come from data of [4,2] and indices of [2]");
  CHECK(run_error("OneHot",
                  {int_tensor({1}, {0}), Tensor::scalar<int64_t>(-1), Tensor(DType::f32, {2})})
            .message() == "OneHot: depth: expected >= 0, received -1");
  CHECK(run_error("OneHot",
                  {int_tensor({1}, {0}), Tensor::scalar<int64_t>(2), Tensor(DType::f32, {3})})
            .code() == Code::invalid_argument);
}

}  // namespace
}  // namespace leat::testing
