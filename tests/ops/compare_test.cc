#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor float_row(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}
Tensor bool_row(const std::vector<bool>& values) {
  return Tensor::of<bool>({static_cast<int64_t>(values.size())}, values);
}

TEST_CASE("comparisons work for every type, and NaN compares with nothing") {
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16,
                      DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64}) {
    INFO(dtype);
    const Tensor a = float_row({1, 2, 3}).cast(dtype), b = float_row({3, 2, 1}).cast(dtype);
    check_identical(run1("Equal", {a, b}), bool_row({false, true, false}));
    check_identical(run1("Greater", {a, b}), bool_row({false, false, true}));
    check_identical(run1("Less", {a, b}), bool_row({true, false, false}));
    check_identical(run1("GreaterOrEqual", {a, b}), bool_row({false, true, true}));
    check_identical(run1("LessOrEqual", {a, b}), bool_row({true, true, false}));
  }
  const Tensor nan = float_row({NAN});
  for (std::string_view op : {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"}) {
    check_identical(run1(op, {nan, nan}), bool_row({false}));
  }
  check_identical(run1("Equal", {bool_row({true, false}), bool_row({true})}),
                  bool_row({true, false}));
}

TEST_CASE("logic, with broadcasting") {
  const Tensor a = Tensor::of<bool>({2, 1}, {false, true}), b = bool_row({false, true});
  check_identical(run1("And", {a, b}), Tensor::of<bool>({2, 2}, {false, false, false, true}));
  check_identical(run1("Or", {a, b}), Tensor::of<bool>({2, 2}, {false, true, true, true}));
  check_identical(run1("Xor", {a, b}), Tensor::of<bool>({2, 2}, {false, true, true, false}));
  check_identical(run1("Not", {b}), bool_row({true, false}));
}

TEST_CASE("IsNaN and IsInf look at float_row") {
  const Tensor x = float_row({1, NAN, INFINITY, -INFINITY});
  check_identical(run1("IsNaN", {x}), bool_row({false, true, false, false}));
  check_identical(run1("IsInf", {x}), bool_row({false, false, true, true}));
  check_identical(run1("IsInf", {x}, {{"detect_negative", int64_t{0}}}),
                  bool_row({false, false, true, false}));
  check_identical(run1("IsInf", {x}, {{"detect_positive", int64_t{0}}}),
                  bool_row({false, false, false, true}));
  check_identical(run1("IsNaN", {x.cast(DType::bf16)}), bool_row({false, true, false, false}));
}

TEST_CASE("Where selects, for every size of element, with broadcasting") {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::i8, DType::boolean, DType::u64}) {
    INFO(dtype);
    const Tensor yes = float_row({1, 0, 1}).cast(dtype), no = float_row({0, 1, 0}).cast(dtype);
    check_identical(run1("Where", {bool_row({true, false, false}), yes, no}),
                    float_row({1, 1, 0}).cast(dtype));
  }
  check_identical(run1("Where", {Tensor::of<bool>({2, 1}, {true, false}), float_row({1, 2}),
                                 Tensor::scalar(9.f)}),
                  Tensor::of<float>({2, 2}, {1, 2, 9, 9}));
}

TEST_CASE("Where passes gradients to the side that was taken") {
  const Tensor c = random_tensor(DType::boolean, {3, 4}, 1);
  check_gradients("Where",
                  {c, random_tensor(DType::f64, {3, 4}, 2), random_tensor(DType::f64, {3, 4}, 3)},
                  {}, {1, 2});
  check_gradients("Where",
                  {c, random_tensor(DType::f64, {4}, 2), random_tensor(DType::f64, {3, 1}, 3)}, {},
                  {1, 2});
}

TEST_CASE("tiles of predicates equal the whole") {
  const Tensor a = random_tensor(DType::f32, {7, 4}, 1), b = random_tensor(DType::f32, {7, 4}, 2);
  const Tensor c = random_tensor(DType::boolean, {7, 4}, 3),
               d = random_tensor(DType::boolean, {4}, 4);
  for (std::string_view op : {"Greater", "LessOrEqual"}) check_tiles(op, {a, b});
  check_tiles("Xor", {c, d});
  check_tiles("Not", {c});
  check_tiles("IsNaN", {a});
  check_tiles("Where", {c, a, b});
  check_tiles("Where", {d, a, Tensor::scalar(1.f)});
}

TEST_CASE("predicates refuse operands that do not fit") {
  CHECK(run_error("Less", {float_row({1, 2}), float_row({1, 2, 3})}).message() ==
        "Less: shapes do not broadcast: [2] and [3]");
  CHECK(run_error("Where", {bool_row({true, false}), float_row({1}), float_row({1, 2, 3})})
            .message() == "Where: shapes do not broadcast: [2] and [3]");
  CHECK(run_error("And", {float_row({1}), bool_row({true})}).code() == Code::invalid_argument);
  CHECK(run_error("Less", {bool_row({true}), bool_row({true})}).code() == Code::invalid_argument);
}

}  // namespace
}  // namespace leat::testing
