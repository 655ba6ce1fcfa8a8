#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/gradients.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Attrs axis(int64_t value) { return {{"axis", value}}; }

// Transposes element by element, straight from the definition.
Tensor transposed(const Tensor& x, const std::vector<int64_t>& perm) {
  Shape shape;
  for (int64_t p : perm) shape.push_back(x.shape()[static_cast<int>(p)]);
  Tensor out(x.dtype(), shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    std::vector<int64_t> index(perm.size());
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index[static_cast<size_t>(perm[static_cast<size_t>(d)])] = rest % shape[d];
      rest /= shape[d];
    }
    int64_t from = 0;
    for (int d = 0; d < x.shape().rank(); ++d)
      from = from * x.shape()[d] + index[static_cast<size_t>(d)];
    out.set(i, x.at(from));
  }
  return out;
}

TEST_CASE("Transpose moves every element to its place") {
  const Tensor x = counting(DType::i32, {3, 4, 5, 2});
  std::vector<int64_t> perm = {0, 1, 2, 3};
  do {
    INFO(join(perm, ","));
    check_identical(run1("Transpose", {x}, {{"perm", perm}}), transposed(x, perm));
  } while (std::next_permutation(perm.begin(), perm.end()));
  check_identical(run1("Transpose", {x}), transposed(x, {3, 2, 1, 0}));
  const Tensor large = random_tensor(DType::f32, {101, 67}, 1);
  check_identical(run1("Transpose", {large}), transposed(large, {1, 0}));
  for (DType dtype : {DType::f64, DType::f16, DType::u8, DType::boolean}) {
    const Tensor y = counting(DType::i64, {2, 3}).cast(dtype);
    check_identical(run1("Transpose", {y}), transposed(y, {1, 0}));
  }
  check_identical(run1("Transpose", {Tensor::scalar(4.f)}), Tensor::scalar(4.f));
  CHECK(run1("Transpose", {Tensor(DType::f32, {0, 3})}).shape() == Shape({3, 0}));
}

TEST_CASE("Concat joins on any axis") {
  const Tensor a = Tensor::of<float>({2, 2}, {1, 2, 3, 4}), b = Tensor::of<float>({2, 1}, {5, 6});
  check_identical(run1("Concat", {a, b}, axis(1)), Tensor::of<float>({2, 3}, {1, 2, 5, 3, 4, 6}));
  check_identical(run1("Concat", {a, b, a}, axis(-1)),
                  Tensor::of<float>({2, 5}, {1, 2, 5, 1, 2, 3, 4, 6, 3, 4}));
  check_identical(run1("Concat", {a, a}, axis(0)),
                  Tensor::of<float>({4, 2}, {1, 2, 3, 4, 1, 2, 3, 4}));
  check_identical(run1("Concat", {a}, axis(0)), a);
  check_identical(run1("Concat", {Tensor(DType::f32, {0, 2}), a}, axis(0)), a);
}

TEST_CASE("Concat adds sizes that share a symbol") {
  const Dim n = Dim::of_symbol(1);
  const auto type = [&](Dim rows) { return tensor_type(DType::f32, {rows, Dim::of(3)}); };
  CHECK(infer("Concat", {type(n), type(n)}, axis(0))->outputs[0].shape ==
        SymbolicShape{Dim::of_symbol(1, 2), Dim::of(3)});
  CHECK(infer("Concat", {type(n), type(n)}, axis(1))->outputs[0].shape ==
        SymbolicShape{n, Dim::of(6)});
  CHECK(infer("Concat", {type(n), type(Dim::of(4))}, axis(1))->outputs[0].shape ==
        SymbolicShape{Dim::of(4), Dim::of(6)});
  CHECK(infer("Concat", {type(n), type(Dim::of(4))}, axis(0))->outputs[0].shape[0].symbol >= 1000);
}

TEST_CASE("Split cuts by sizes or evenly") {
  const Tensor x = counting(DType::f32, {2, 5});
  const auto check = [](const Tensor& y, const Shape& shape, const std::vector<float>& values) {
    check_identical(y, Tensor::of<float>(shape, values));
  };
  const auto by_size = run("Split", {x, ints({2, 3})}, axis(1), 2);
  check(by_size[0], {2, 2}, {0, 1, 5, 6});
  check(by_size[1], {2, 3}, {2, 3, 4, 7, 8, 9});
  Attrs three = axis(-1);
  three["num_outputs"] = int64_t{3};
  const auto even = run("Split", {x}, three, 3);
  check(even[0], {2, 2}, {0, 1, 5, 6});
  check(even[1], {2, 2}, {2, 3, 7, 8});
  check(even[2], {2, 1}, {4, 9});
  const auto rows = run("Split", {x}, {}, 2);
  check(rows[0], {1, 5}, {0, 1, 2, 3, 4});
  check(rows[1], {1, 5}, {5, 6, 7, 8, 9});
}

TEST_CASE("Split halves a symbolic size that divides") {
  const auto outcome = infer("Split", {tensor_type(DType::f32, {Dim::of_symbol(1, 4)})}, {}, 2);
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[1].shape == SymbolicShape{Dim::of_symbol(1, 2)});
}

TEST_CASE("Expand and Tile repeat") {
  const Tensor column = Tensor::of<float>({2, 1}, {1, 2});
  check_identical(run1("Expand", {column, ints({3})}),
                  Tensor::of<float>({2, 3}, {1, 1, 1, 2, 2, 2}));
  check_identical(run1("Expand", {column, ints({2, 1, 2})}),
                  Tensor::of<float>({2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2}));
  check_identical(run1("Expand", {column, ints({1})}), column);
  check_identical(run1("Expand", {Tensor::scalar(true), ints({2})}),
                  Tensor::of<bool>({2}, {true, true}));
  const Tensor x = Tensor::of<int32_t>({2, 2}, {1, 2, 3, 4});
  check_identical(run1("Tile", {x, ints({1, 2})}),
                  Tensor::of<int32_t>({2, 4}, {1, 2, 1, 2, 3, 4, 3, 4}));
  check_identical(run1("Tile", {x, ints({2, 1})}),
                  Tensor::of<int32_t>({4, 2}, {1, 2, 3, 4, 1, 2, 3, 4}));
  CHECK(run1("Tile", {x, ints({0, 2})}).shape() == Shape({0, 4}));
}

TEST_CASE("gradients of movements agree with finite differences") {
  const Tensor x = random_tensor(DType::f64, {2, 3, 4}, 1),
               y = random_tensor(DType::f64, {2, 1, 4}, 2);
  check_gradients("Transpose", {x}, {{"perm", std::vector<int64_t>{2, 0, 1}}}, {0});
  check_gradients("Concat", {x, y, x}, axis(1), {0, 1, 2});
  check_gradients("Concat", {x}, axis(1), {0});
  check_gradients("Split", {x, ints({1, 2})}, axis(1), {0}, 2);
  check_gradients("Split", {x}, axis(2), {0}, 3);
  check_gradients("Expand", {y, ints({3, 2, 3, 4})}, {}, {0});
  check_gradients("Tile", {y, ints({2, 3, 1})}, {}, {0});
  check_gradients("Tile", {x, ints({1, 1, 1})}, {}, {0});
  check_gradients("Tile", {x, ints({0, 2, 1})}, {}, {0});  // nothing depends on x
}

TEST_CASE("an output of Split that no node reads gives zeros") {
  const auto grads =
      gradients_of("Split", {random_tensor(DType::f64, {4}, 1)}, {{"num_outputs", int64_t{1}}});
  check_identical(grads[0], Tensor::of<double>({4}, {1, 1, 1, 1}));
  Graph graph(test_catalogue());
  Inference inference(graph);
  const ValueId x = graph.add_input("x", tensor_type(DType::f64, Shape({4})));
  const NodeId split = *graph.add_node("", "Split", {x}, {}, 2);
  REQUIRE(inference.infer(split).ok());
  const auto made = add_gradients(inference, graph.node(split).outputs[1], std::vector<ValueId>{x});
  REQUIRE(made.ok());
  const auto values = interpret(graph, {{x, Tensor(DType::f64, {4})}}, *made);
  REQUIRE(values.ok());
  check_identical((*values)[0], Tensor::of<double>({4}, {0, 0, 1, 1}));
}

TEST_CASE("tiles of movements equal the whole") {
  const Tensor x = random_tensor(DType::f32, {7, 4, 6}, 1),
               y = random_tensor(DType::f32, {7, 2, 6}, 2);
  check_tiles("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  check_tiles("Concat", {x, y}, axis(1));
  check_tiles("Split", {x, ints({1, 3})}, axis(1), 2);
  check_tiles("Split", {x}, axis(-1), 4);
  check_tiles("Expand", {y, ints({7, 2, 6})});
  check_tiles("Expand", {Tensor::scalar(2.f), ints({7, 3})});
  check_tiles("Expand", {random_tensor(DType::f32, {7, 1}, 3), ints({7, 3})});
}

TEST_CASE("movements refuse what does not fit") {
  const Tensor x(DType::f32, {2, 3});
  CHECK(run_error("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 0}}}).message() ==
        "Transpose: perm: expected each axis of [2,3] once, received [0,0]");
  CHECK(
      run_error("Concat", {x, Tensor(DType::f32, {3, 3})}, axis(1)).message() ==
      "Concat: expected shapes that differ on axis 1 alone, received [2,3] and, as input 1, [3,3]");
  CHECK(run_error("Concat", {x, Tensor(DType::f32, {2})}, axis(0)).code() ==
        Code::invalid_argument);
  CHECK(run_error("Concat", {x}, axis(2)).message() ==
        "Concat: axis: expected in [-2, 1] for rank 2, received 2");
  CHECK(run_error("Split", {x, ints({1, 1})}, axis(1), 2).message() ==
        "Split: split: expected 2 sizes >= 0 that add up to axis 1 of [2,3], received [1,1]");
  CHECK(run_error("Split", {x}, {{"num_outputs", int64_t{3}}}, 2).message() ==
        "Split: num_outputs: expected 2 as there are outputs, received 3");
  CHECK(run_error("Expand", {x, ints({4})}).message() ==
        "Expand: expected a shape that [2,3] broadcasts with, received [4]");
  CHECK(run_error("Expand", {x, ints({-1, 3})}).code() == Code::invalid_argument);
  CHECK(run_error("Tile", {x, ints({2})}).message() ==
        "Tile: repeats: expected one for each axis of [2,3], received 1");
  CHECK(run_error("Tile", {x, ints({2, -1})}).code() == Code::invalid_argument);
}

}  // namespace
}  // namespace leat::testing
