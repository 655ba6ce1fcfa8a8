#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

constexpr SymbolId kN = 1, kM = 2;
const Dim kBatch = Dim::of_symbol(kN);

// Returns the shape that `op` infers for a float of `shape` and a known second operand.
SymbolicShape shape_of(std::string_view op, const SymbolicShape& shape, const Tensor& second,
                       const Attrs& attrs = {}) {
  std::vector<ValueType> types = {tensor_type(DType::f32, shape)};
  std::vector<Tensor> values = {Tensor()};
  if (second.valid()) {
    types.push_back(tensor_type(second.dtype(), second.shape()));
    values.push_back(second);
  }
  const auto outcome = infer(op, types, attrs, 1, values);
  INFO(outcome.status());
  REQUIRE(outcome.ok());
  return outcome->outputs[0].shape;
}

TEST_CASE("Shape and Size say what the type says") {
  const Tensor x(DType::f32, {2, 3, 4});
  check_identical(run1("Shape", {x}), ints({2, 3, 4}));
  check_identical(run1("Shape", {x}, {{"start", int64_t{1}}}), ints({3, 4}));
  check_identical(run1("Shape", {x}, {{"start", int64_t{-2}}, {"end", int64_t{-1}}}), ints({3}));
  check_identical(run1("Shape", {x}, {{"start", int64_t{2}}, {"end", int64_t{1}}}),
                  Tensor(DType::i64, {0}));
  check_identical(run1("Shape", {x}, {{"end", int64_t{9}}}), ints({2, 3, 4}));
  check_identical(run1("Shape", {Tensor::scalar(1.f)}), Tensor(DType::i64, {0}));
  check_identical(run1("Size", {x}), Tensor::scalar<int64_t>(24));
}

TEST_CASE("Shape's value is known at compile time where the sizes are") {
  const ValueType type = tensor_type(DType::f32, {kBatch, Dim::of(3), Dim::of(4)});
  const auto whole = infer("Shape", {type});
  REQUIRE(whole.ok());
  CHECK(!whole->constants[0].valid());
  CHECK(whole->outputs[0].shape == SymbolicShape(Shape({3})));
  const auto tail = infer("Shape", {type}, {{"start", int64_t{1}}});
  REQUIRE(tail.ok());
  check_identical(tail->constants[0], ints({3, 4}));
  CHECK(!infer("Size", {type})->constants[0].valid());
}

TEST_CASE("Reshape knows 0, -1 and allowzero") {
  const Tensor x = random_tensor(DType::f32, {2, 3, 4}, 1);
  const auto shape = [&](const std::vector<int64_t>& sizes) {
    return run1("Reshape", {x, ints(sizes)}).shape();
  };
  CHECK(shape({4, 6}) == Shape({4, 6}));
  CHECK(shape({-1}) == Shape({24}));
  CHECK(shape({0, -1}) == Shape({2, 12}));
  CHECK(shape({0, 0, 2, -1}) == Shape({2, 3, 2, 2}));
  // Sizes that are copied say nothing about -1, not even those of 0.
  const Tensor no_rows(DType::f32, {0, 3, 4});
  CHECK(run1("Reshape", {no_rows, ints({0, -1})}).shape() == Shape({0, 12}));
  CHECK(run1("Reshape", {no_rows, ints({0, 2, -1})}).shape() == Shape({0, 2, 6}));
  CHECK(run_error("Reshape", {no_rows, ints({-1, 0, 0, 0})}).code() == Code::invalid_argument);
  CHECK(run1("Reshape", {x, ints({4, 6})}).identical(x.reshaped({4, 6})));
  CHECK(run1("Reshape", {Tensor::scalar(5.f), ints({1, 1})}).shape() == Shape({1, 1}));
  CHECK(run1("Reshape", {Tensor::of<float>({1}, {5}), Tensor(DType::i64, {0})}).shape() == Shape());
  const Tensor empty(DType::f32, {0, 3, 4});
  const Attrs allow = {{"allowzero", int64_t{1}}};
  CHECK(run1("Reshape", {empty, ints({3, 4, 0})}, allow).shape() == Shape({3, 4, 0}));
  CHECK(run_error("Reshape", {empty, ints({-1, 0})}, allow).message() ==
        "Reshape: shape: -1 beside a size of 0 has no answer");
}

TEST_CASE("Reshape carries symbols through") {
  const SymbolicShape image = {kBatch, Dim::of(64), Dim::of(7), Dim::of(7)};
  CHECK(shape_of("Reshape", image, ints({0, -1})) == SymbolicShape{kBatch, Dim::of(3136)});
  CHECK(shape_of("Reshape", image, ints({-1, 3136})) == SymbolicShape{kBatch, Dim::of(3136)});
  CHECK(shape_of("Reshape", image, ints({-1, 64})) ==
        SymbolicShape{Dim::of_symbol(kN, 49), Dim::of(64)});
  CHECK(shape_of("Reshape", {Dim::of_symbol(kN, 49), Dim::of(64)}, ints({-1, 49, 64})) ==
        SymbolicShape{kBatch, Dim::of(49), Dim::of(64)});
  const SymbolicShape text = {kBatch, Dim::of_symbol(kM), Dim::of(32)};
  CHECK(shape_of("Reshape", text, ints({0, 0, 4, -1})) ==
        SymbolicShape{kBatch, Dim::of_symbol(kM), Dim::of(4), Dim::of(8)});
  const SymbolicShape merged = shape_of("Reshape", text, ints({-1, 32}));  // N*M has no name
  CHECK(!merged[0].is_constant());
  CHECK(merged[0].symbol >= 1000);
  CHECK(!shape_of("Reshape", {kBatch, Dim::of(3)}, ints({-1, 2}))[0].is_constant());
  const auto unknown =
      infer("Reshape", {tensor_type(DType::f32, image), tensor_type(DType::i64, Shape({2}))});
  REQUIRE(unknown.ok());
  CHECK(unknown->outputs[0].shape.rank() == 2);
}

TEST_CASE("Flatten, Squeeze, Unsqueeze and Identity change the shape alone") {
  const Tensor x = random_tensor(DType::i16, {2, 1, 3, 1}, 1, -9, 9);
  const auto check = [&](const Tensor& y, const Shape& shape) {
    check_identical(y, x.reshaped(shape));
  };
  check(run1("Flatten", {x}), {2, 3});
  check(run1("Flatten", {x}, {{"axis", int64_t{0}}}), {1, 6});
  check(run1("Flatten", {x}, {{"axis", int64_t{-1}}}), {6, 1});
  check(run1("Flatten", {x}, {{"axis", int64_t{4}}}), {6, 1});
  check(run1("Squeeze", {x}), {2, 3});
  check(run1("Squeeze", {x, ints({-1})}), {2, 1, 3});
  check(run1("Squeeze", {x, ints({3, 1})}), {2, 3});
  check(run1("Unsqueeze", {x, ints({0, -1})}), {1, 2, 1, 3, 1, 1});
  check(run1("Unsqueeze", {x, Tensor::scalar<int64_t>(1)}), {2, 1, 1, 3, 1});
  check(run1("Unsqueeze", {x, ints({5, 2})}), {2, 1, 1, 3, 1, 1});
  check(run1("Identity", {x}), {2, 1, 3, 1});
  CHECK(run1("Flatten", {Tensor::scalar(1.f)}, {{"axis", int64_t{0}}}).shape() == Shape({1, 1}));
}

TEST_CASE("views carry symbols through") {
  const SymbolicShape x = {kBatch, Dim::of(1), Dim::of(3)};
  CHECK(shape_of("Flatten", x, Tensor()) == SymbolicShape{kBatch, Dim::of(3)});
  CHECK(shape_of("Flatten", x, Tensor(), {{"axis", int64_t{3}}}) ==
        SymbolicShape{Dim::of_symbol(kN, 3), Dim::of(1)});
  CHECK(shape_of("Squeeze", x, Tensor()) == SymbolicShape{kBatch, Dim::of(3)});
  CHECK(shape_of("Unsqueeze", x, ints({1})) ==
        SymbolicShape{kBatch, Dim::of(1), Dim::of(1), Dim::of(3)});
}

TEST_CASE("gradients of views are reshaped back") {
  const Tensor x = random_tensor(DType::f64, {2, 1, 3, 2}, 1);
  check_gradients("Reshape", {x, ints({3, -1})}, {}, {0});
  check_gradients("Flatten", {x}, {}, {0});
  check_gradients("Squeeze", {x}, {}, {0});
  check_gradients("Squeeze", {x, ints({1})}, {}, {0});
  check_gradients("Unsqueeze", {x, ints({0, 2})}, {}, {0});
  check_gradients("Identity", {x}, {}, {0});
}

TEST_CASE("views refuse shapes that do not fit") {
  const Tensor x(DType::f32, {2, 3});
  const auto message = [&](const std::vector<int64_t>& sizes) {
    return run_error("Reshape", {x, ints(sizes)}).message();
  };
  CHECK(message({4, 2}) == "Reshape: shape: expected 6 elements, received 8: input [2,3] to [4,2]");
  CHECK(message({4, -1}) == "Reshape: shape: 6 elements do not divide by 4");
  CHECK(message({-1, -1}) == "Reshape: shape: expected at most one -1: input [2,3] to [-1,-1]");
  CHECK(message({-2, 3}) == "Reshape: shape: expected sizes >= -1: input [2,3] to [-2,3]");
  CHECK(message({6, 1, 0}) ==
        "Reshape: shape: 0 copies a size that is not there: input [2,3] to [6,1,0]");
  CHECK(message({int64_t{1} << 40, int64_t{1} << 40}).find("too many elements") !=
        std::string::npos);
  CHECK(message({1, 1, 1, 1, 1, 1, 1, 1, 6}).find("rank at most 8") != std::string::npos);
  CHECK(run_error("Flatten", {x}, {{"axis", int64_t{3}}}).message() ==
        "Flatten: axis: expected in [-2, 2], received 3");
  CHECK(run_error("Squeeze", {x, ints({0})}).message() ==
        "Squeeze: axes: expected a size of 1 at axis 0, input is [2,3]");
  CHECK(run_error("Squeeze", {x, ints({2})}).code() == Code::invalid_argument);
  CHECK(run_error("Unsqueeze", {x, ints({0, 0})}).message() ==
        "Unsqueeze: axes: expected each axis once, received 0 again");
  CHECK(run_error("Unsqueeze", {x, ints({4, 0})}).code() == Code::invalid_argument);
}

TEST_CASE("a shape that is no shape is refused") {
  const Tensor one(DType::f32, {1});
  const auto margins = ints({0, 0});
  CHECK(run_error("leat.PadGrad", {one, ints({-1}), margins}, {{"mode", std::string("constant")}})
            .message() == "leat.PadGrad: input 1: expected a shape, received [-1]");
  const auto nine =
      infer("ConstantOfShape", {tensor_type(DType::i64, {Dim::of(9)})}, {}, 1, {Tensor()});
  CHECK(nine.status().message() == "ConstantOfShape: expected rank at most 8, received 9");
}

TEST_CASE("a view's kernel refuses an output of other bytes") {
  OpTypes types;
  types.inputs = {{DType::f32, {6}, Layout::plain, ValueKind::tensor, true}};
  types.outputs = {{DType::f32, {7}, Layout::plain, ValueKind::tensor, true}};
  const Attrs none;
  types.attrs = &none;
  KernelSetup setup;
  setup.types = types;
  setup.subject = "Identity 'a'";
  const auto kernel = test_catalogue().find("Identity")->kernels.at("cpu")(setup);
  CHECK(kernel.status().message() ==
        "Identity 'a': expected as many elements as the input has, input [6], output [7]");
}

TEST_CASE("views say how they are sharded") {
  const auto operand = [](const Shape& shape) {
    return OperandType{DType::f32, shape, Layout::plain, ValueKind::tensor, true};
  };
  const auto rules = test_catalogue().find("Reshape")->sharding({operand({8, 4, 6}), operand({2})},
                                                                {operand({32, 6})}, {});
  REQUIRE(rules.size() == 3);
  CHECK(rules[0].inputs == std::vector<Spread>{Spread::on(0), Spread{}});
  CHECK(rules[0].outputs == std::vector<Spread>{Spread::on(0)});
  CHECK(rules[1].inputs[0] == Spread::on(2));
  CHECK(rules[1].outputs[0] == Spread::on(1));
  CHECK(rules[2].outputs[0] == Spread::sum());
}

}  // namespace
}  // namespace leat::testing
