#include "ops/graph/limits.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

TEST_CASE("Constant takes its value from any of its attributes") {
  const Tensor value = random_tensor(DType::f16, {2, 3}, 1);
  check_identical(run1("Constant", {}, {{"value", value}}), value);
  check_identical(run1("Constant", {}, {{"value_float", 1.5}}), Tensor::scalar(1.5f));
  check_identical(run1("Constant", {}, {{"value_int", int64_t{7}}}), Tensor::scalar<int64_t>(7));
  check_identical(run1("Constant", {}, {{"value_ints", std::vector<int64_t>{7, 8}}}),
                  Tensor::of<int64_t>({2}, {7, 8}));
  check_identical(run1("Constant", {}, {{"value_floats", std::vector<double>{0.5, 2}}}),
                  Tensor::of<float>({2}, {0.5, 2}));
  check_identical(run1("Constant", {}, {{"value_floats", std::vector<int64_t>{}}}),
                  Tensor(DType::f32, {0}));
}

TEST_CASE("Constant needs one value") {
  CHECK_THAT(run_error("Constant", {}).message(),
             Catch::Contains("expected exactly one of") && Catch::Contains("received 0"));
  CHECK_THAT(run_error("Constant", {}, {{"value_float", 1.0}, {"value_int", int64_t{1}}}).message(),
             Catch::Contains("received 2"));
}

TEST_CASE("a small Constant is known at compile time, a large one is not copied about") {
  const auto small = infer("Constant", {}, {{"value_int", int64_t{7}}});
  REQUIRE(small.ok());
  check_identical(small->constants[0], Tensor::scalar<int64_t>(7));
  const auto large =
      infer("Constant", {}, {{"value", Tensor(DType::f32, {limits::kValueInference + 1})}});
  REQUIRE(large.ok());
  CHECK(!large->constants[0].valid());
}

TEST_CASE("ConstantOfShape fills a shape") {
  const Tensor shape = Tensor::of<int64_t>({2}, {2, 3});
  check_identical(run1("ConstantOfShape", {shape}), Tensor(DType::f32, {2, 3}));
  check_identical(run1("ConstantOfShape", {shape}, {{"value", Tensor::of<int32_t>({1}, {4})}}),
                  Tensor::of<int32_t>({2, 3}, {4, 4, 4, 4, 4, 4}));
  check_identical(run1("ConstantOfShape", {Tensor(DType::i64, {0})}), Tensor(DType::f32, Shape()));
  CHECK(run1("ConstantOfShape", {Tensor::of<int64_t>({2}, {0, 3})}).shape() == Shape({0, 3}));
}

TEST_CASE("ConstantOfShape of an unknown shape has symbols for sizes") {
  const auto outcome = infer("ConstantOfShape", {tensor_type(DType::i64, Shape({2}))});
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[0].shape.rank() == 2);
  CHECK(!outcome->outputs[0].shape[0].is_constant());
}

TEST_CASE("ConstantOfShape refuses what is no shape") {
  CHECK(run_error("ConstantOfShape", {Tensor::of<int64_t>({2}, {2, -3})}).message() ==
        "ConstantOfShape: input: expected a shape, received [2,-3]");
  CHECK(run_error("ConstantOfShape", {Tensor::scalar<int64_t>(2)}).code() ==
        Code::invalid_argument);
  CHECK(
      run_error("ConstantOfShape", {Tensor::of<int64_t>({9}, std::vector<int64_t>(9, 1))}).code() ==
      Code::invalid_argument);
  CHECK(run_error("ConstantOfShape", {Tensor::of<int64_t>({1}, {2})},
                  {{"value", Tensor(DType::f32, {2})}})
            .code() == Code::invalid_argument);
}

}  // namespace
}  // namespace leat::testing
