#include <cmath>

#include "ops/graph/gradients.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

// Returns element (row, column) of the last two axes of a matrix, which may be transposed.
double element(const Tensor& t, int64_t offset, bool transposed, int64_t row, int64_t column) {
  const int64_t columns = t.shape()[t.shape().rank() - 1];
  return t.at(offset + (transposed ? column * columns + row : row * columns + column));
}

// Computes op(a) x op(b) of two matrices in f64, straight from the definition.
Tensor naive_product(const Tensor& a, const Tensor& b, bool trans_a = false, bool trans_b = false,
                     double alpha = 1) {
  const int64_t m = a.shape()[trans_a], k = a.shape()[!trans_a], n = b.shape()[!trans_b];
  Tensor y(DType::f64, {m, n});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += element(a, 0, trans_a, i, p) * element(b, 0, trans_b, p, j);
      y.set(i * n + j, alpha * sum);
    }
  }
  return y;
}

// Returns item `item` of a batch of matrices.
Tensor item_of(const Tensor& t, int64_t item) {
  const int rank = t.shape().rank();
  const int64_t rows = t.shape()[rank - 2], columns = t.shape()[rank - 1];
  Tensor out(t.dtype(), {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) out.set(i, t.at(item * rows * columns + i));
  return out;
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 2e-3;
    case DType::bf16:
      return 2e-2;
    case DType::f32:
      return 1e-5;
    default:
      return 1e-12;
  }
}

}  // namespace

TEST_CASE("a product of matrices is the sum of products in every float type") {
  const auto dtype = GENERATE(DType::f32, DType::f64, DType::f16, DType::bf16);
  struct Case {
    int64_t m, k, n;
  };
  for (const Case& c : {Case{1, 1, 1},
                        {3, 5, 2},
                        {64, 64, 64},
                        {65, 129, 33},
                        {1, 70, 300},
                        {130, 3, 1},
                        {7, 200, 600}}) {
    INFO(c.m << "x" << c.k << "x" << c.n << " " << dtype);
    const Tensor a = random_tensor(dtype, {c.m, c.k}, 1), b = random_tensor(dtype, {c.k, c.n}, 2);
    const double tolerance = tolerance_of(dtype);
    check_close(run1("MatMul", {a, b}), naive_product(a, b).cast(dtype), tolerance,
                tolerance * std::sqrt(static_cast<double>(c.k)));
  }
}

TEST_CASE("a product of integers is exact and wraps around") {
  const Tensor a = Tensor::of<int64_t>({2, 2}, {1, -2, 3, 4}),
               b = Tensor::of<int64_t>({2, 1}, {5, 6});
  check_identical(run1("MatMul", {a, b}), Tensor::of<int64_t>({2, 1}, {-7, 39}));
  const Tensor big = Tensor::of<int32_t>({1, 2}, {2147483647, 1}),
               two = Tensor::of<int32_t>({2, 1}, {2, 3});
  check_identical(run1("MatMul", {big, two}), Tensor::of<int32_t>({1, 1}, {1}));
}

TEST_CASE("a vector is a row on the left and a column on the right") {
  const Tensor m = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor two = Tensor::of<float>({2}, {1, 10}), three = Tensor::of<float>({3}, {1, 10, 100});
  check_identical(run1("MatMul", {two, m}), Tensor::of<float>({3}, {41, 52, 63}));
  check_identical(run1("MatMul", {m, three}), Tensor::of<float>({2}, {321, 654}));
  check_identical(run1("MatMul", {three, three}), Tensor::scalar<float>(10101));
  const Tensor batch = Tensor::of<float>({2, 2, 1}, {1, 2, 3, 4});
  check_identical(run1("MatMul", {two, batch}), Tensor::of<float>({2, 1}, {21, 43}));
}

TEST_CASE("batches broadcast as numpy's do") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  const Tensor a = random_tensor(dtype, {2, 1, 3, 4}, 1), b = random_tensor(dtype, {5, 4, 6}, 2);
  const Tensor y = run1("MatMul", {a, b});
  REQUIRE(y.shape() == Shape{2, 5, 3, 6});
  for (int64_t i = 0; i < 10; ++i) {
    check_close(item_of(y, i), naive_product(item_of(a, i / 5), item_of(b, i % 5)).cast(dtype),
                1e-5, 1e-5);
  }
  const Tensor flat = random_tensor(dtype, {4, 6}, 3);
  const Tensor z = run1("MatMul", {a, flat});
  REQUIRE(z.shape() == Shape{2, 1, 3, 6});
  for (int64_t i = 0; i < 2; ++i) {
    check_close(item_of(z, i), naive_product(item_of(a, i), flat).cast(dtype), 1e-5, 1e-5);
  }
}

TEST_CASE("a product over nothing is zero, and a product without rows is empty") {
  const auto dtype = GENERATE(DType::f32, DType::f64, DType::i32);
  check_identical(run1("MatMul", {Tensor(dtype, {2, 0}), Tensor(dtype, {0, 3})}),
                  Tensor(dtype, {2, 3}));
  CHECK(run1("MatMul", {Tensor(dtype, {0, 2}), Tensor(dtype, {2, 3})}).shape() == Shape{0, 3});
  CHECK(run1("MatMul", {Tensor(dtype, {0, 4, 2}), Tensor(dtype, {2, 3})}).shape() ==
        Shape{0, 4, 3});
  CHECK(run1("MatMul", {Tensor(dtype, {0, 4, 2}), Tensor(dtype, {0, 2, 3})}).shape() ==
        Shape{0, 4, 3});
}

TEST_CASE("leat.MatMul transposes its operands, scales, and adds a bias") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  const int64_t trans_a = GENERATE(0, 1), trans_b = GENERATE(0, 1);
  const Tensor a = random_tensor(dtype, trans_a ? Shape{3, 7, 5} : Shape{3, 5, 7}, 1);
  const Tensor b = random_tensor(dtype, trans_b ? Shape{3, 4, 7} : Shape{3, 7, 4}, 2);
  const Tensor bias = random_tensor(dtype, {4}, 3);
  const Tensor y =
      run1("leat.MatMul", {a, b, bias}, {{"transA", trans_a}, {"transB", trans_b}, {"alpha", 0.5}});
  for (int64_t i = 0; i < 3; ++i) {
    Tensor expected = naive_product(item_of(a, i), item_of(b, i), trans_a, trans_b, 0.5);
    for (int64_t j = 0; j < expected.elements(); ++j)
      expected.set(j, expected.at(j) + bias.at(j % 4));
    check_close(item_of(y, i), expected.cast(dtype), 1e-5, 1e-5);
  }
}

TEST_CASE("Gemm scales, transposes and broadcasts C") {
  const auto dtype = GENERATE(DType::f32, DType::f64, DType::bf16);
  const int64_t trans_a = GENERATE(0, 1), trans_b = GENERATE(0, 1);
  const int64_t m = 37, k = 19, n = 21;
  const Tensor a = random_tensor(dtype, trans_a ? Shape{k, m} : Shape{m, k}, 1);
  const Tensor b = random_tensor(dtype, trans_b ? Shape{n, k} : Shape{k, n}, 2);
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{n}, Shape{1, n}, Shape{m, 1}, Shape{m, n}, Shape{1, 1}}) {
    const Tensor c = random_tensor(dtype, shape, 3);
    INFO("C is " << shape << " of " << dtype);
    Tensor expected = naive_product(a, b, trans_a, trans_b, 0.25);
    const int64_t rows = shape.rank() == 2 ? shape[0] : 1,
                  columns = shape.rank() > 0 ? shape[shape.rank() - 1] : 1;
    for (int64_t i = 0; i < m * n; ++i) {
      const int64_t row = rows == 1 ? 0 : i / n, column = columns == 1 ? 0 : i % n;
      expected.set(i, expected.at(i) - 2 * c.at(row * columns + column));
    }
    const Tensor y =
        run1("Gemm", {a, b, c},
             {{"transA", trans_a}, {"transB", trans_b}, {"alpha", 0.25}, {"beta", -2.0}});
    check_close(y, expected.cast(dtype), tolerance_of(dtype), 10 * tolerance_of(dtype));
  }
}

TEST_CASE("a fused relu is applied after C") {
  const auto dtype = GENERATE(DType::f32, DType::f64);
  const Attrs relu{{"leat_activation", std::string("relu")}};
  const Tensor one = Tensor::of<float>({2, 1}, {1, -1}).cast(dtype),
               b = Tensor::of<float>({1, 2}, {1, 2}).cast(dtype);
  const Tensor c = Tensor::of<float>({2}, {-1.5, 1}).cast(dtype);
  check_identical(run1("Gemm", {one, b, c}, relu),
                  Tensor::of<float>({2, 2}, {0, 3, 0, 0}).cast(dtype));
  check_identical(run1("MatMul", {one, b}, relu),
                  Tensor::of<float>({2, 2}, {1, 2, 0, 0}).cast(dtype));
}

TEST_CASE("products do not depend on how they are cut into rows") {
  const auto dtype = GENERATE(DType::f32, DType::f64, DType::bf16);
  const Tensor weights = random_tensor(dtype, {12, 9}, 2), c = random_tensor(dtype, {10, 9}, 3);
  check_tiles("MatMul", {random_tensor(dtype, {10, 12}, 1), weights});
  check_tiles("MatMul", {random_tensor(dtype, {5, 3, 12}, 1), weights});
  check_tiles("MatMul", {random_tensor(dtype, {5, 3, 4}, 1), random_tensor(dtype, {5, 4, 6}, 2)});
  check_tiles("MatMul", {random_tensor(dtype, {3, 4}, 1), random_tensor(dtype, {5, 4, 6}, 2)});
  check_tiles("Gemm", {random_tensor(dtype, {10, 12}, 1), weights, c});
}

TEST_CASE("tiles of a large product may run in any order") {
  const auto dtype = GENERATE(DType::f32, DType::f64, DType::bf16);
  const Tensor a = random_tensor(dtype, {150, 90}, 1), b = random_tensor(dtype, {90, 700}, 2);
  InterpretOptions reverse;
  reverse.reverse_tiles = true;
  check_identical(run("MatMul", {a, b}, {}, 1, reverse)[0], run1("MatMul", {a, b}));
}

TEST_CASE("gradients of products agree with finite differences") {
  const auto x = [](const Shape& shape, uint64_t seed) {
    return random_tensor(DType::f64, shape, seed);
  };
  check_gradients("MatMul", {x({3, 4}, 1), x({4, 5}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({2, 3, 4}, 1), x({4, 5}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({2, 1, 3, 4}, 1), x({3, 4, 2}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({3, 4}, 1), x({2, 4, 2}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({4}, 1), x({4, 3}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({3, 4}, 1), x({4}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({4}, 1), x({2, 4, 3}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({2, 3, 4}, 1), x({4}, 2)}, {}, {0, 1});
  check_gradients("MatMul", {x({4}, 1), x({4}, 2)}, {}, {0, 1});
  for (int64_t trans_a : {0, 1}) {
    for (int64_t trans_b : {0, 1}) {
      INFO("transA " << trans_a << ", transB " << trans_b);
      const Attrs attrs{{"transA", trans_a}, {"transB", trans_b}, {"alpha", 0.5}};
      const Tensor a = x(trans_a ? Shape{4, 3} : Shape{3, 4}, 1);
      const Tensor b = x(trans_b ? Shape{5, 4} : Shape{4, 5}, 2);
      check_gradients("leat.MatMul", {a, b, x({5}, 3)}, attrs, {0, 1, 2});
      const Tensor items = x(trans_a ? Shape{2, 4, 3} : Shape{2, 3, 4}, 1);
      check_gradients("leat.MatMul", {items, b, x({5}, 3)}, attrs, {0, 1, 2});
      Attrs gemm = attrs;
      gemm["beta"] = 3.0;
      for (const Shape& c : {Shape{}, Shape{5}, Shape{3, 1}, Shape{3, 5}}) {
        check_gradients("Gemm", {a, b, x(c, 3)}, gemm, {0, 1, 2});
      }
    }
  }
}

TEST_CASE("the gradient of a product runs no Transpose") {
  Graph graph(test_catalogue());
  Inference inference(graph);
  const ValueId x = graph.add_input(
      "x", tensor_type(DType::f32, {Dim::of_symbol(graph.symbol("N")), Dim::of(8), Dim::of(4)}));
  const ValueId w = graph.add_input("w", tensor_type(DType::f32, Shape{4, 6}));
  const NodeId product = graph.add_node(*test_catalogue().find("MatMul"), {x, w}, {}, 1);
  REQUIRE(inference.run().ok());
  const ValueId xs[] = {x, w};
  const auto gradients = add_gradients(inference, graph.node(product).outputs[0], xs);
  INFO(gradients.status());
  REQUIRE(gradients.ok());
  CHECK(graph.value((*gradients)[0]).type == graph.value(x).type);
  CHECK(graph.value((*gradients)[1]).type == graph.value(w).type);
  for (NodeId id = 0; id < graph.nodes(); ++id) CHECK(graph.node(id).op->name != "Transpose");
}

TEST_CASE("products of sizes that do not fit are refused by name and size") {
  const auto message = [](const Tensor& a, const Tensor& b) {
    return run_error("MatMul", {a, b}).message();
  };
  CHECK(message(Tensor(DType::f32, {64, 128}), Tensor(DType::f32, {100, 10})) ==
        "MatMul: inner sizes differ, a is [64,128], b is [100,10]");
  CHECK(message(Tensor(DType::f32, {2, 3, 4}), Tensor(DType::f32, {3, 4, 5})) ==
        "MatMul: batches do not broadcast, a is [2,3,4], b is [3,4,5]");
  CHECK(message(Tensor(DType::f32, {}), Tensor(DType::f32, {1})) ==
        "MatMul: expected operands of rank 1 or more, received [] and [1]");
  const Tensor a(DType::f32, {2, 3}), b(DType::f32, {3, 4});
  CHECK(run_error("leat.MatMul", {a, Tensor(DType::f32, {a.shape()[1]}), Tensor(DType::f32, {3})})
            .message() == "leat.MatMul: bias: expected a matrix as B, received a vector");
  CHECK(run_error("Gemm", {a, b, Tensor(DType::f32, {3})}).message() ==
        "Gemm: C does not broadcast to [2,4], it is [3]");
  CHECK(run_error("Gemm", {a, b}, {{"transA", int64_t{1}}}).message() ==
        "Gemm: inner sizes differ, a is [2,3], b is [3,4], transA 1, transB 0");
  CHECK(run_error("Gemm", {Tensor(DType::f32, {2}), b}).message() ==
        "Gemm: expected matrices, received [2] and [3,4]");
  CHECK(run_error("Gemm", {a, b}, {{"leat_activation", std::string("tanh")}}).message() ==
        "Gemm: leat_activation: expected 'relu', received 'tanh'");
}

TEST_CASE("a symbolic batch goes through products") {
  const SymbolicShape a{Dim::of_symbol(7), Dim::of(128), Dim::of(64)};
  const auto outcome =
      infer("MatMul", {tensor_type(DType::f32, a), tensor_type(DType::f32, Shape{64, 10})});
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[0].shape == SymbolicShape{Dim::of_symbol(7), Dim::of(128), Dim::of(10)});
}

TEST_CASE("sharding rules of products name rows, columns and partial sums") {
  const OpDef& op = *test_catalogue().find("Gemm");
  const auto type = [](Shape shape) {
    return OperandType{DType::f32, shape, Layout::plain, ValueKind::tensor, true};
  };
  const Attrs attrs = with_defaults(op, {{"transB", int64_t{1}}});
  const auto rules = op.sharding({type({8, 4}), type({6, 4})}, {type({8, 6})}, attrs);
  REQUIRE(rules.size() == 3);
  CHECK(rules[0] == ShardingRule{{Spread::on(0), {}}, {Spread::on(0)}});
  CHECK(rules[1] == ShardingRule{{{}, Spread::on(0)}, {Spread::on(1)}});
  CHECK(rules[2] == ShardingRule{{Spread::on(1), Spread::on(1)}, {Spread::sum()}});
  const auto biased = op.sharding({type({8, 4}), type({6, 4}), type({6})}, {type({8, 6})}, attrs);
  REQUIRE(biased.size() == 2);  // C is not part of a partial sum
  CHECK(biased[0].inputs[2] == Spread{});
  CHECK(biased[1].inputs[2] == Spread::on(0));
}

}  // namespace leat::testing
