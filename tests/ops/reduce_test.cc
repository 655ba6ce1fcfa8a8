#include <algorithm>
#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/definitions/reduce_shape.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using testing::check_close;
using testing::check_gradients;
using testing::check_identical;
using testing::check_tiles;
using testing::random_tensor;
using testing::run;
using testing::run1;
using testing::run_error;

Tensor axes_of(const std::vector<int64_t>& axes) {
  return Tensor::of<int64_t>({static_cast<int64_t>(axes.size())}, axes);
}

// Computes the sum over `axes` in f64, one element after another.
Tensor naive_sum(const Tensor& x, AxisSet axes, bool keepdims) {
  Shape out;
  for (int i = 0; i < x.shape().rank(); ++i) {
    if (!(axes >> i & 1))
      out.push_back(x.shape()[i]);
    else if (keepdims)
      out.push_back(1);
  }
  Tensor y(DType::f64, out);
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int axis = x.shape().rank() - 1; axis >= 0; --axis) {
      const int64_t index = rest % x.shape()[axis];
      rest /= x.shape()[axis];
      if (axes >> axis & 1) continue;
      at += index * stride;
      stride *= x.shape()[axis];
    }
    y.set(at, y.at(at) + x.at(i));
  }
  return y;
}

std::vector<int64_t> list_of(AxisSet axes, int rank) {
  std::vector<int64_t> list;
  for (int i = 0; i < rank; ++i) {
    if (axes >> i & 1) list.push_back(i % 2 ? i - rank : i);  // negative axes too
  }
  return list;
}

TEST_CASE("ReduceSum agrees with a naive f64 sum over every set of axes") {
  for (const Shape& shape :
       {Shape{3, 5, 2, 7}, Shape{1, 5, 1, 7}, Shape{4, 1, 33, 65}, Shape{6}, Shape{}}) {
    const Tensor x = random_tensor(DType::f32, shape, 7);
    for (AxisSet axes = 0; axes < AxisSet{1} << shape.rank(); ++axes) {
      for (int64_t keepdims : {0, 1}) {
        const Tensor y = run1("ReduceSum", {x, axes_of(list_of(axes, shape.rank()))},
                              {{"keepdims", keepdims}, {"noop_with_empty_axes", int64_t{1}}});
        check_close(y, naive_sum(x, axes, keepdims != 0).cast(DType::f32), 1e-5, 1e-5);
      }
    }
  }
}

TEST_CASE("no axes mean all of them, or none where the attribute says so") {
  const Tensor x = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  check_identical(run1("ReduceSum", {x}), Tensor::of<float>({1, 1}, {10}));
  check_identical(run1("ReduceSum", {x}, {{"keepdims", int64_t{0}}}), Tensor::scalar<float>(10));
  check_identical(run1("ReduceSum", {x, axes_of({})}), Tensor::of<float>({1, 1}, {10}));
  check_identical(run1("ReduceSum", {x}, {{"noop_with_empty_axes", int64_t{1}}}), x);
  check_identical(run1("ReduceSumSquare", {x}, {{"noop_with_empty_axes", int64_t{1}}}),
                  Tensor::of<float>({2, 2}, {1, 4, 9, 16}));
}

TEST_CASE("each reduction does what its name says") {
  const Tensor x = Tensor::of<float>({2, 3}, {3, -4, 1, 1, 2, -5});
  const Tensor axes = axes_of({1});
  const Attrs flat = {{"keepdims", int64_t{0}}};
  check_identical(run1("ReduceMean", {x, axes}, flat), Tensor::of<float>({2}, {0, -2.0f / 3}));
  check_identical(run1("ReduceMax", {x, axes}, flat), Tensor::of<float>({2}, {3, 2}));
  check_identical(run1("ReduceMin", {x, axes}, flat), Tensor::of<float>({2}, {-4, -5}));
  check_identical(run1("ReduceProd", {x, axes}, flat), Tensor::of<float>({2}, {-12, -10}));
  check_identical(run1("ReduceSumSquare", {x, axes}, flat), Tensor::of<float>({2}, {26, 30}));
  check_identical(run1("ReduceL1", {x, axes}, flat), Tensor::of<float>({2}, {8, 8}));
  check_close(run1("ReduceL2", {x, axes}, flat),
              Tensor::of<float>({2}, {std::sqrt(26.0f), std::sqrt(30.0f)}));
  check_identical(run1("ReduceMax", {x, axes_of({0})}, flat), Tensor::of<float>({3}, {3, 2, 1}));
}

TEST_CASE("every dtype is reduced in its own arithmetic") {
  for (DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32,
                      DType::i64, DType::u8, DType::u16, DType::u32, DType::u64}) {
    CAPTURE(dtype);
    const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 9}).cast(dtype);
    check_identical(run1("ReduceSum", {x, axes_of({1})}, {{"keepdims", int64_t{0}}}),
                    Tensor::of<float>({2}, {6, 18}).cast(dtype));
    check_identical(run1("ReduceMax", {x, axes_of({0})}, {{"keepdims", int64_t{0}}}),
                    Tensor::of<float>({3}, {4, 5, 9}).cast(dtype));
    check_identical(run1("ReduceMean", {x, axes_of({1})}, {{"keepdims", int64_t{0}}}),
                    Tensor::of<float>({2}, {2, 6}).cast(dtype));
  }
  check_identical(
      run1("ReduceSum", {Tensor::of<int8_t>({2}, {127, 2})}, {{"keepdims", int64_t{0}}}),
      Tensor::scalar<int8_t>(-127));
  check_identical(run1("ReduceMax", {Tensor::of<bool>({2}, {false, true})}),
                  Tensor::of<bool>({1}, {true}));
  check_identical(run1("ReduceMin", {Tensor::of<bool>({2}, {false, true})}),
                  Tensor::of<bool>({1}, {false}));
}

TEST_CASE("half sums are accumulated in float") {
  Tensor x(DType::f16, {4096});
  for (int64_t i = 0; i < 4096; ++i) x.set(i, 1);
  CHECK(run1("ReduceSum", {x}).at(0) == 4096);  // 1 + 2048 is 2048 in f16
}

TEST_CASE("sums of 16 bits have the bits of the f32 sums, rounded once") {
  for (const Shape& shape : {Shape{100, 70}, Shape{37, 64}, Shape{33, 300}, Shape{2, 33, 200}}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Tensor x = random_tensor(dtype, shape, 31), wide = x.cast(DType::f32);
      for (const AxisSet axes : {AxisSet{1}, AxisSet{2}, AxisSet{3}}) {
        CAPTURE(shape, dtype, axes);
        const Tensor list = axes_of(list_of(axes, shape.rank()));
        check_identical(run1("ReduceSum", {x, list}), run1("ReduceSum", {wide, list}).cast(dtype));
      }
    }
  }
}

TEST_CASE("a reduction of nothing gives the identity") {
  const Tensor x(DType::f32, {2, 0});
  const Attrs flat = {{"keepdims", int64_t{0}}};
  const float inf = std::numeric_limits<float>::infinity();
  check_identical(run1("ReduceSum", {x, axes_of({1})}, flat), Tensor::of<float>({2}, {0, 0}));
  check_identical(run1("ReduceProd", {x, axes_of({1})}, flat), Tensor::of<float>({2}, {1, 1}));
  check_identical(run1("ReduceMax", {x, axes_of({1})}, flat), Tensor::of<float>({2}, {-inf, -inf}));
  check_identical(run1("ReduceMin", {Tensor(DType::i8, {2, 0}), axes_of({1})}, flat),
                  Tensor::of<int8_t>({2}, {127, 127}));
  CHECK(std::isnan(run1("ReduceMean", {x, axes_of({1})}, flat).at(1)));
  check_identical(run1("ReduceSum", {x, axes_of({0})}, flat), Tensor(DType::f32, {0}));
}

TEST_CASE("a NaN wins a maximum and a minimum, wherever it stands") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t at : {0, 5, 31, 32, 40, 69}) {
    Tensor x = random_tensor(DType::f32, {70}, 3);
    x.set(at, nan);
    CHECK(std::isnan(run1("ReduceMax", {x}).at(0)));
    CHECK(std::isnan(run1("ReduceMin", {x}).at(0)));
    CHECK(std::isnan(run1("ReduceMax", {x.reshaped({70, 1}), axes_of({0})}).at(0)));
  }
}

TEST_CASE("large sums stay near the f64 result") {
  const Tensor x = random_tensor(DType::f32, {3, 1000003}, 5, 0, 1);
  const Tensor y = run1("ReduceSum", {x, axes_of({1})}, {{"keepdims", int64_t{0}}});
  check_close(y, naive_sum(x, 2, false).cast(DType::f32), 1e-6, 0);
  const Tensor columns = random_tensor(DType::f32, {70001, 3}, 5, 0, 1);
  check_close(run1("ReduceSum", {columns, axes_of({0})}, {{"keepdims", int64_t{0}}}),
              naive_sum(columns, 1, false).cast(DType::f32), 1e-6, 0);
}

TEST_CASE("the order of tiles and their size do not matter") {
  const InterpretOptions reversed = [] {
    InterpretOptions options;
    options.reverse_tiles = true;
    return options;
  }();
  for (const auto& [shape, axes] :
       std::vector<std::pair<Shape, std::vector<int64_t>>>{{{100001}, {0}},
                                                           {{3000, 40}, {0}},
                                                           {{3000, 600}, {0}},
                                                           {{40, 20, 300}, {0, 2}},
                                                           {{5, 3000, 30}, {1}}}) {
    CAPTURE(shape);
    const Tensor x = random_tensor(DType::f32, shape, 11);
    check_identical(run("ReduceSum", {x, axes_of(axes)}, {}, 1, reversed)[0],
                    run1("ReduceSum", {x, axes_of(axes)}));
  }
  check_tiles("ReduceSum", {random_tensor(DType::f32, {7, 33, 65}, 1), axes_of({1})});
  check_tiles("ReduceSum", {random_tensor(DType::f32, {7, 33, 65}, 1), axes_of({2})});
  check_tiles("ReduceMean", {random_tensor(DType::f16, {7, 33, 65}, 1), axes_of({1, 2})});
  check_tiles("ReduceMax", {random_tensor(DType::f64, {7, 400, 300}, 1), axes_of({1})});
  check_tiles("ReduceSum", {random_tensor(DType::f32, {7, 40000}, 1), axes_of({1})},
              {{"keepdims", int64_t{0}}});
  check_tiles("ReduceL1", {random_tensor(DType::f32, {7}, 1), axes_of({})},
              {{"noop_with_empty_axes", int64_t{1}}});
}

// Computes a sum's tree as the header describes it: lanes, blocks, and the largest power of two
// below n.
float tree_oracle(const std::vector<float>& leaves, size_t from, size_t to) {
  if (to - from == 1) return leaves[from];
  size_t half = 1;
  while (half * 2 < to - from) half *= 2;
  return tree_oracle(leaves, from, from + half) + tree_oracle(leaves, from + half, to);
}

TEST_CASE("a sum has the documented tree, whatever its chunks") {
  for (int64_t n : {1, 31, 64, 2048, 2049, 40000, 100000, 262144 + 17}) {
    CAPTURE(n);
    const Tensor x = random_tensor(DType::f32, {n}, 23);
    std::vector<float> leaves;
    for (int64_t at = 0; at < n; at += 2048) {
      float lanes[32] = {};
      for (int64_t i = at; i < std::min(n, at + 2048); ++i)
        lanes[(i - at) % 32] += x.data<float>()[i];
      for (int width = 16; width > 0; width /= 2) {
        for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
      }
      leaves.push_back(lanes[0]);
    }
    CHECK(run1("ReduceSum", {x}).data<float>()[0] == tree_oracle(leaves, 0, leaves.size()));
    const Tensor columns = random_tensor(DType::f32, {n, 1}, 29);
    leaves.clear();
    for (int64_t at = 0; at < n; at += 32) {
      float sum = 0;
      for (int64_t i = at; i < std::min(n, at + 32); ++i) sum += columns.data<float>()[i];
      leaves.push_back(sum);
    }
    // A second column, so that the first one is not contiguous.
    Tensor pairs(DType::f32, {n, 2});
    for (int64_t i = 0; i < n; ++i) pairs.data<float>()[2 * i] = columns.data<float>()[i];
    CHECK(run1("ReduceSum", {pairs, axes_of({0})}).data<float>()[0] ==
          tree_oracle(leaves, 0, leaves.size()));
  }
}

Tensor reduce_grad(const char* reduction, const Tensor& dy, const Tensor& x, const Tensor& y,
                   const Tensor& axes) {
  return run1("leat.ReduceGrad", {dy, x, y, axes}, {{"reduction", std::string(reduction)}});
}

TEST_CASE("equal largest elements share the gradient, and one zero takes a product's") {
  const Tensor x = Tensor::of<float>({2, 3}, {3, 1, 3, 2, 2, 2});
  check_identical(reduce_grad("max", Tensor::of<float>({2, 1}, {1, 3}), x,
                              Tensor::of<float>({2, 1}, {3, 2}), axes_of({1})),
                  Tensor::of<float>({2, 3}, {0.5, 0, 0.5, 1, 1, 1}));
  const Tensor zeros = Tensor::of<float>({2, 3}, {2, 0, 3, 0, 0, 4});
  check_identical(reduce_grad("prod", Tensor::of<float>({2, 1}, {1, 1}), zeros,
                              Tensor(DType::f32, {2, 1}), axes_of({1})),
                  Tensor::of<float>({2, 3}, {0, 6, 0, 0, 0, 0}));
  check_identical(reduce_grad("l2", Tensor::of<float>({1}, {1}), Tensor(DType::f32, {3}),
                              Tensor(DType::f32, {1}), axes_of({0})),
                  Tensor(DType::f32, {3}));
}

TEST_CASE("the gradient of a reduction is cut into rows") {
  const Tensor x = random_tensor(DType::f32, {7, 5, 6}, 3), axes = axes_of({1});
  check_tiles("leat.ReduceGrad", {random_tensor(DType::f32, {7, 1, 6}, 4), x, Tensor(), axes},
              {{"reduction", std::string("mean")}});
  const Tensor y = run1("ReduceMax", {x, axes});
  check_tiles("leat.ReduceGrad", {random_tensor(DType::f32, {7, 1, 6}, 4), x, y, axes},
              {{"reduction", std::string("max")}});
  for (const auto& [shape, list] : std::vector<std::pair<Shape, std::vector<int64_t>>>{
           {{1, 5, 6}, {0}}, {{1, 5, 1}, {0, 2}}, {{1, 1, 6}, {0, 1}}, {{1, 1, 1}, {0, 1, 2}}}) {
    check_tiles("leat.ReduceGrad",
                {random_tensor(DType::f32, shape, 4), x, Tensor(), axes_of(list)},
                {{"reduction", std::string("sum")}});
  }
}

TEST_CASE("ArgMax and ArgMin find the first, or the last, of equals") {
  const Tensor x = Tensor::of<float>({2, 3}, {2, 7, 7, 5, 5, 1});
  const auto arg = [&](const char* op, int64_t axis, int64_t keepdims, int64_t last) {
    return run1(op, {x}, {{"axis", axis}, {"keepdims", keepdims}, {"select_last_index", last}});
  };
  check_identical(arg("ArgMax", 1, 0, 0), Tensor::of<int64_t>({2}, {1, 0}));
  check_identical(arg("ArgMax", -1, 1, 1), Tensor::of<int64_t>({2, 1}, {2, 1}));
  check_identical(arg("ArgMin", 0, 0, 0), Tensor::of<int64_t>({3}, {0, 1, 1}));
  check_identical(run1("ArgMax", {x}), Tensor::of<int64_t>({1, 3}, {1, 0, 0}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_identical(run1("ArgMax", {Tensor::of<float>({4}, {9, nan, nan, 10})}),
                  Tensor::of<int64_t>({1}, {1}));
  check_tiles("ArgMax", {random_tensor(DType::f32, {7, 5, 300}, 3)}, {{"axis", int64_t{1}}});
  check_tiles("ArgMin", {random_tensor(DType::i32, {7, 50}, 3, 0, 9)},
              {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
}

// Lines of floats are compared a vector at a time, and other axes element by element.
TEST_CASE("ArgMax of a line is that of a column") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const int64_t n : {1, 31, 512, 513, 1300}) {
      const int64_t lines = 6;
      Tensor x = random_tensor(dtype, {lines, n}, static_cast<uint64_t>(n));
      Tensor columns(dtype, {n, lines});
      for (int64_t i = 0; i < x.elements(); ++i) {
        // Few values, so that many are equal; +0 and -0 are.
        if (i / n > 0) x.set(i, std::round(4 * x.at(i)) / 4);
        if (i / n == 2) x.set(i, i % 2 ? 0.0 : -0.0);
        // NaN: one in a hundred, all, and in the last place alone.
        if ((i / n == 3 && i % 97 == 5) || i / n == 4 || (i / n == 5 && i % n == n - 1))
          x.set(i, nan);
        columns.set(i % n * lines + i / n, x.at(i));
      }
      for (const char* op : {"ArgMax", "ArgMin"}) {
        for (const int64_t last : {0, 1}) {
          INFO(op << " of " << n << ", last " << last);
          const auto along = [&](const Tensor& of, int64_t axis) {
            return run1(op, {of},
                        {{"axis", axis}, {"keepdims", int64_t{0}}, {"select_last_index", last}});
          };
          check_identical(along(x, 1), along(columns, 0));
        }
      }
    }
  }
}

TEST_CASE("a wrong reduction is refused by name") {
  const Tensor x(DType::f32, {2, 3});
  const auto message = [&](const std::vector<Tensor>& inputs, const Attrs& attrs = {}) {
    return run_error("ReduceSum", inputs, attrs).message();
  };
  CHECK_THAT(message({x, axes_of({2})}),
             Catch::Contains("expected in [-2, 1] for rank 2, received 2"));
  CHECK_THAT(message({x, axes_of({1, -1})}), Catch::Contains("expected each once"));
  CHECK_THAT(message({x, Tensor::of<int64_t>({1, 1}, {0})}),
             Catch::Contains("axes: expected a list, received shape [1,1]"));
  CHECK_THAT(run_error("ArgMax", {Tensor(DType::f32, {2, 0})}, {{"axis", int64_t{1}}}).message(),
             Catch::Contains("expected at least one element"));
  CHECK_THAT(run_error("leat.ReduceGrad", {x, x}, {{"reduction", std::string("median")}}).message(),
             Catch::Contains("received 'median'"));
  CHECK_THAT(run_error("leat.ReduceGrad", {x, x}, {{"reduction", std::string("sum")}}).message(),
             Catch::Contains("dy: expected shape [1,1], received [2,3]"));
}

TEST_CASE("shards of a sum are parts of it") {
  const OpDef& op = *testing::test_catalogue().find("ReduceSum");
  const auto rules = [&](const Shape& in, const Shape& out, int64_t keepdims) {
    return op.sharding({{DType::f32, in, Layout::plain, ValueKind::tensor, true}},
                       {{DType::f32, out, Layout::plain, ValueKind::tensor, true}},
                       {{"keepdims", keepdims}});
  };
  const auto has = [](const std::vector<ShardingRule>& all, Spread in, Spread out) {
    return std::any_of(all.begin(), all.end(), [&](const ShardingRule& r) {
      return r.inputs[0] == in && r.outputs[0] == out;
    });
  };
  const auto sum_rows = rules({8, 3, 5}, {3, 5}, 0);
  CHECK(has(sum_rows, Spread::on(0), Spread::sum()));
  CHECK(has(sum_rows, Spread::on(2), Spread::on(1)));
  CHECK(has(sum_rows, Spread::sum(), Spread::sum()));
  CHECK_FALSE(has(sum_rows, Spread::on(0), Spread::on(0)));
  CHECK(rules({4, 4}, {4}, 0).empty());  // either axis may be the reduced one, so there is no rule
}

TEST_CASE("a reduced shape keeps its symbols") {
  const auto outcome =
      testing::infer("ReduceSum",
                     {testing::tensor_type(DType::f32, {Dim::of_symbol(3), Dim::of(4), Dim::of(5)}),
                      testing::tensor_type(DType::i64, {Dim::of(1)})},
                     {{"keepdims", int64_t{0}}}, 1, {Tensor(), axes_of({1})});
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[0].shape == SymbolicShape{Dim::of_symbol(3), Dim::of(5)});
  const auto unknown =
      testing::infer("ReduceSum", {testing::tensor_type(DType::f32, {Dim::of(4)}),
                                   testing::tensor_type(DType::i64, {Dim::of(1)})});
  REQUIRE_FALSE(unknown.ok());
  CHECK_THAT(unknown.status().message(), Catch::Contains("known before anything runs"));
}

TEST_CASE("gradients of reductions agree with finite differences") {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                         "ReduceSumSquare", "ReduceL1", "ReduceL2"}) {
    CAPTURE(op);
    const Tensor x = random_tensor(DType::f64, {3, 4, 5}, 2, 0.5, 1.5);
    for (const auto& axes :
         std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {-1, 0, 1}}) {
      for (int64_t keepdims : {0, 1}) {
        check_gradients(op, {x, axes_of(axes)}, {{"keepdims", keepdims}}, {0});
      }
    }
    check_gradients(op, {x}, {{"keepdims", int64_t{0}}}, {0});
    check_gradients(op, {x}, {{"noop_with_empty_axes", int64_t{1}}}, {0});
    check_gradients(op, {random_tensor(DType::f64, {1, 3, 4}, 2, 0.5, 1.5), axes_of({0, 2})},
                    {{"keepdims", int64_t{0}}}, {0});
  }
}

}  // namespace
}  // namespace leat
