#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

using F = std::vector<float>;

Tensor floats(const Shape& shape, const F& values) { return Tensor::of<float>(shape, values); }
Tensor int32s(const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>({static_cast<int64_t>(values.size())}, values);
}

constexpr DType kNumberTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                                  DType::i8,  DType::i16, DType::i32, DType::i64,
                                  DType::u8,  DType::u16, DType::u32, DType::u64};

TEST_CASE("arithmetic works for every numeric type") {
  for (DType dtype : kNumberTypes) {
    INFO(dtype);
    const Tensor a = floats({4}, {7, 9, 2, 12}).cast(dtype),
                 b = floats({4}, {2, 3, 2, 5}).cast(dtype);
    const auto check = [&](std::string_view op, const F& expected) {
      INFO(op);
      check_identical(run1(op, {a, b}), floats({4}, expected).cast(dtype));
    };
    check("Add", {9, 12, 4, 17});
    check("Sub", {5, 6, 0, 7});
    check("Mul", {14, 27, 4, 60});
    check("Max", {7, 9, 2, 12});
    check("Min", {2, 3, 2, 5});
    check("Mod", {1, 0, 0, 2});
    if (is_int(dtype))
      check("Div", {3, 3, 1, 2});
    else
      check_close(run1("Div", {a, b}), floats({4}, {3.5, 3, 1, 2.4f}).cast(dtype), 1e-6);
  }
}

TEST_CASE("operands are broadcast as in numpy") {
  const Tensor a = floats({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = floats({2, 1}, {10, 20});
  check_identical(run1("Add", {a, b}),
                  floats({2, 2, 3}, {11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26}));
  check_identical(run1("Sub", {b, a}),
                  floats({2, 2, 3}, {9, 8, 7, 19, 18, 17, 6, 5, 4, 16, 15, 14}));
  check_identical(run1("Mul", {a, Tensor::scalar(2.f)}), floats({2, 1, 3}, {2, 4, 6, 8, 10, 12}));
  check_identical(run1("Add", {Tensor::scalar(1.f), Tensor::scalar(2.f)}), Tensor::scalar(3.f));
  CHECK(run1("Add", {Tensor(DType::f32, {0, 3}), Tensor(DType::f32, {3})}).shape() ==
        Shape({0, 3}));
}

TEST_CASE("any pattern of broadcasting gives what the plain loop gives") {
  const std::vector<Shape> shapes = {{5, 4, 3, 2}, {1, 4, 3, 2}, {5, 1, 3, 2}, {5, 4, 1, 2},
                                     {5, 4, 3, 1}, {5, 1, 1, 2}, {1, 4, 1, 2}, {5, 1, 3, 1},
                                     {4, 3, 2},    {3, 1},       {2},          {1},
                                     {},           {4, 1, 1},    {1, 1, 3, 2}};
  for (const Shape& sa : shapes) {
    for (const Shape& sb : shapes) {
      INFO(sa << " and " << sb);
      const Tensor a = random_tensor(DType::f64, sa, 1), b = random_tensor(DType::f64, sb, 2);
      const Shape so = *broadcast(sa, sb);
      Tensor expected(DType::f64, so);
      for (int64_t i = 0; i < so.elements(); ++i) {
        const auto at = [&](const Tensor& t) {
          int64_t rest = i, index = 0, step = 1;
          for (int d = so.rank() - 1, k = t.shape().rank() - 1; k >= 0; --d, --k) {
            const int64_t x = rest % so[d];
            rest /= so[d];
            index += t.shape()[k] == 1 ? 0 : x * step;
            step *= t.shape()[k];
          }
          return t.at(index);
        };
        expected.set(i, at(a) - at(b));
      }
      check_identical(run1("Sub", {a, b}), expected);
    }
  }
}

TEST_CASE("integers wrap and divide toward zero") {
  const int32_t least = std::numeric_limits<int32_t>::min();
  check_identical(run1("Add", {int32s({least}), int32s({-1})}),
                  int32s({std::numeric_limits<int32_t>::max()}));
  check_identical(run1("Div", {int32s({-7, 7, least}), int32s({2, -2, -1})}),
                  int32s({-3, -3, least}));
  check_identical(run1("Mod", {int32s({-7, 7, -7, 7}), int32s({3, -3, -3, 3})}),
                  int32s({2, -2, -1, 1}));
  const Attrs fmod = {{"fmod", int64_t{1}}};
  check_identical(run1("Mod", {int32s({-7, 7, -7, 7}), int32s({3, -3, -3, 3})}, fmod),
                  int32s({-1, 1, -1, 1}));
  check_close(run1("Mod", {floats({2}, {-4.5, 4.5}), floats({2}, {2, -2})}, fmod),
              floats({2}, {-0.5, 0.5}));
  check_identical(
      run1("Mul", {Tensor::of<uint16_t>({1}, {65535}), Tensor::of<uint16_t>({1}, {65535})}),
      Tensor::of<uint16_t>({1}, {1}));
}

TEST_CASE("an integer divided by zero fails the step, a float does not") {
  CHECK(run_error("Div", {int32s({1, 2}), int32s({1, 0})}).message() ==
        "Div: expected a divisor other than 0");
  CHECK(run_error("Mod", {int32s({1, 2}), int32s({0})}).code() == Code::invalid_argument);
  check_identical(run1("Div", {floats({1}, {1}), floats({1}, {0})}), floats({1}, {INFINITY}));
}

TEST_CASE("extremes of many operands, and NaN wins") {
  const Tensor a = floats({3}, {1, 5, 3}), b = floats({3}, {4, 2, 3}), c = floats({1}, {3});
  check_identical(run1("Max", {a}), a);
  check_identical(run1("Max", {a, b, c}), floats({3}, {4, 5, 3}));
  check_identical(run1("Min", {c, a, b}), floats({3}, {1, 2, 3}));
  check_identical(run1("Sum", {a, b, c}), floats({3}, {8, 10, 9}));
  check_identical(
      run1("Max", {Tensor::scalar(1.f), floats({2, 1}, {0, 2}), floats({3}, {0, 1, 3})}),
      floats({2, 3}, {1, 1, 3, 2, 2, 3}));
  const Tensor nan = floats({2}, {NAN, 0});
  const Tensor zero = floats({2}, {0, NAN});
  for (std::string_view op : {"Max", "Min"}) {
    CHECK(std::isnan(run1(op, {nan, zero}).at(0)));
    CHECK(std::isnan(run1(op, {nan, zero}).at(1)));
  }
}

TEST_CASE("variadic ops do not work in place, as an operand may stand there again") {
  for (const char* op : {"Max", "Min", "Sum"}) CHECK(test_catalogue().find(op)->in_place.empty());
}

TEST_CASE("powers of floats, of integers, and of mixed types") {
  const Tensor x = floats({4}, {1, 2, 3, 4});
  check_close(run1("Pow", {x, floats({4}, {4, 5, 6, 0.5})}), floats({4}, {1, 32, 729, 2}));
  check_identical(run1("Pow", {x, Tensor::scalar(2.f)}), floats({4}, {1, 4, 9, 16}));
  check_identical(run1("Pow", {x, Tensor::scalar(3.f)}), floats({4}, {1, 8, 27, 64}));
  check_identical(run1("Pow", {x, Tensor::scalar(0.5f)}), run1("Sqrt", {x}));
  check_identical(run1("Pow", {x, Tensor::scalar(-1.f)}), run1("Reciprocal", {x}));
  // One exponent for all gives what one for each gives, also where sqrt() differs from pow().
  const Tensor odd = floats({2}, {-std::numeric_limits<float>::infinity(), -0.f});
  check_identical(run1("Pow", {odd, Tensor::scalar(0.5f)}),
                  run1("Pow", {odd, floats({2}, {0.5, 0.5})}));
  check_identical(run1("Pow", {x, int32s({3})}), floats({4}, {1, 8, 27, 64}));
  check_identical(run1("Pow", {int32s({2, -2, 1, -1, 0}), int32s({-1, 3, -5, -3, 0})}),
                  int32s({0, -8, 1, -1, 1}));
  check_identical(run1("Pow", {int32s({1, 2, 3}), floats({3}, {4, 5, 6})}), int32s({1, 32, 729}));
  check_identical(run1("Pow", {int32s({10}), floats({1}, {20})}),
                  int32s({std::numeric_limits<int32_t>::max()}));
}

TEST_CASE("functions of one operand") {
  const Tensor x = floats({4}, {-1.5, 0, 0.25, 2.5});
  check_identical(run1("Neg", {x}), floats({4}, {1.5, -0.f, -0.25, -2.5}));
  check_identical(run1("Abs", {x}), floats({4}, {1.5, 0, 0.25, 2.5}));
  check_identical(run1("Sign", {x}), floats({4}, {-1, 0, 1, 1}));
  check_identical(run1("Floor", {x}), floats({4}, {-2, 0, 0, 2}));
  check_identical(run1("Ceil", {x}), floats({4}, {-1, 0, 1, 3}));
  check_identical(run1("Round", {x}), floats({4}, {-2, 0, 0, 2}));
  check_close(run1("Exp", {x}), floats({4}, {0.22313016f, 1, 1.2840254f, 12.182494f}));
  check_close(run1("Erf", {x}), floats({4}, {-0.96610515f, 0, 0.27632639f, 0.99959305f}));
  check_close(run1("Sin", {x}), floats({4}, {-0.99749499f, 0, 0.24740396f, 0.59847214f}));
  check_close(run1("Cos", {x}), floats({4}, {0.070737202f, 1, 0.96891242f, -0.80114362f}));
  check_close(run1("Log", {floats({3}, {1, 2, 0})}), floats({3}, {0, 0.69314718f, -INFINITY}));
  check_close(run1("Sqrt", {floats({3}, {4, 2, -1})}), floats({3}, {2, 1.4142136f, NAN}));
  check_identical(run1("Abs", {Tensor::of<int8_t>({3}, {-128, -5, 5})}),
                  Tensor::of<int8_t>({3}, {-128, 5, 5}));
  check_identical(run1("Sign", {Tensor::of<uint8_t>({2}, {0, 9})}),
                  Tensor::of<uint8_t>({2}, {0, 1}));
  check_identical(run1("Neg", {Tensor::of<int64_t>({2}, {3, -3})}),
                  Tensor::of<int64_t>({2}, {-3, 3}));
}

TEST_CASE("functions of one operand work in every float type") {
  for (DType dtype : {DType::f64, DType::f16, DType::bf16}) {
    const double tolerance = dtype == DType::f64 ? 1e-6 : dtype == DType::f16 ? 2e-3 : 1e-2;
    const Tensor x = random_tensor(DType::f32, {64}, 3, 0.1, 2).cast(dtype);
    for (std::string_view op : {"Neg", "Abs", "Sign", "Reciprocal", "Sqrt", "Exp", "Log", "Sin",
                                "Cos", "Erf", "Floor", "Ceil", "Round"}) {
      INFO(op << " " << dtype);
      check_close(run1(op, {x}), run1(op, {x.cast(DType::f32)}).cast(dtype), tolerance, tolerance);
    }
  }
}

TEST_CASE("Clip bounds from either side or none") {
  const Tensor x = floats({4}, {-3, -1, 1, 3}), low = Tensor::scalar(-2.f),
               high = Tensor::scalar(2.f);
  check_identical(run1("Clip", {x, low, high}), floats({4}, {-2, -1, 1, 2}));
  check_identical(run1("Clip", {x, low}), floats({4}, {-2, -1, 1, 3}));
  check_identical(run1("Clip", {x, Tensor(), high}), floats({4}, {-3, -1, 1, 2}));
  check_identical(run1("Clip", {x}), x);
  check_identical(run1("Clip", {x, high, low}), floats({4}, {-2, -2, -2, -2}));
  check_identical(run1("Clip", {Tensor::of<int8_t>({3}, {-9, 0, 9}), Tensor::scalar<int8_t>(-1),
                                Tensor::scalar<int8_t>(1)}),
                  Tensor::of<int8_t>({3}, {-1, 0, 1}));
  CHECK(run_error("Clip", {x, x}).message() == "Clip: min and max: expected scalars, input is [4]");
}

TEST_CASE("gradients of arithmetic agree with finite differences, broadcasting included") {
  const std::vector<std::pair<Shape, Shape>> shapes = {{{2, 3}, {2, 3}}, {{2, 3}, {3}},
                                                       {{3}, {2, 3}},    {{2, 3}, {2, 1}},
                                                       {{1, 3}, {2, 1}}, {{2, 3}, {}}};
  for (const auto& [sa, sb] : shapes) {
    INFO(sa << " and " << sb);
    const Tensor a = random_tensor(DType::f64, sa, 1, 0.5, 2),
                 b = random_tensor(DType::f64, sb, 2, 0.5, 2);
    for (std::string_view op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum"}) {
      check_gradients(op, {a, b}, {}, {0, 1});
    }
  }
}

TEST_CASE("gradients of a remainder agree with finite differences") {
  const Tensor a = Tensor::of<double>({2, 3}, {5.3, -4.7, 0.4, 9.1, 3.3, -8.2});
  const Tensor b = Tensor::of<double>({3}, {2, 1.5, -3});
  check_gradients("Mod", {a, b}, {{"fmod", int64_t{1}}}, {0, 1});
}

TEST_CASE("gradients of functions of one operand agree with finite differences") {
  const Tensor x = random_tensor(DType::f64, {3, 4}, 5, 0.3, 2);
  for (std::string_view op :
       {"Neg", "Abs", "Reciprocal", "Sqrt", "Exp", "Log", "Sin", "Cos", "Erf"}) {
    check_gradients(op, {x}, {}, {0});
  }
  check_gradients("Abs", {random_tensor(DType::f64, {5}, 6, -2, -0.5)}, {}, {0});
  const Tensor low = Tensor::scalar(0.7), high = Tensor::scalar(1.4);
  check_gradients("Clip", {x, low, high}, {}, {0});
  check_gradients("Clip", {x, Tensor(), high}, {}, {0});
  check_gradients("Clip", {x}, {}, {0});
}

TEST_CASE("operands that tie for the maximum share its gradient") {
  for (int count : {2, 3}) {
    std::vector<Tensor> inputs(static_cast<size_t>(count), Tensor::of<double>({2}, {1, 2}));
    inputs[0] = Tensor::of<double>({2}, {1, 0});
    const auto grads = gradients_of("Max", inputs);
    check_close(grads[0], Tensor::of<double>({2}, {1.0 / count, 0}));
    check_close(grads[1], Tensor::of<double>({2}, {1.0 / count, 1.0 / (count - 1)}));
  }
}

TEST_CASE("a power's gradient is defined at zero") {
  const auto square = gradients_of("Pow", {Tensor::of<double>({2}, {0, 3}), Tensor::scalar(2.0)});
  check_close(square[0], Tensor::of<double>({2}, {0, 6}));
  check_close(square[1], Tensor::scalar(9 * std::log(3.0)));
  const auto one = gradients_of("Pow", {Tensor::of<double>({2}, {0, 3}), Tensor::scalar(0.0)});
  check_close(one[0], Tensor::of<double>({2}, {0, 0}));
}

TEST_CASE("tiles of elementwise ops equal the whole") {
  const Tensor a = random_tensor(DType::f32, {7, 5, 3}, 1),
               b = random_tensor(DType::f32, {7, 5, 3}, 2);
  const Tensor row = random_tensor(DType::f32, {3}, 3),
               column = random_tensor(DType::f32, {7, 1, 1}, 4);
  const Tensor middle = random_tensor(DType::f32, {1, 5, 1}, 5);
  for (std::string_view op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod"}) {
    for (const Tensor& other : {b, row, column, middle}) check_tiles(op, {a, other});
    check_tiles(op, {row, a});
    check_tiles(op, {column, middle});
  }
  check_tiles("Sum", {a, row, b, column});
  for (std::string_view op : {"Neg", "Abs", "Exp", "Sqrt", "Log", "Sin", "Cos", "Erf", "Floor",
                              "Ceil", "Round", "Sign", "Reciprocal", "Clip"}) {
    check_tiles(op, {a});
  }
  check_tiles("Clip", {a, Tensor::scalar(-0.5f), Tensor::scalar(0.5f)});
  check_tiles("leat.ClipGrad", {a, b, Tensor::scalar(-0.5f), Tensor::scalar(0.5f)});
  check_tiles("leat.PowGrad", {a, b, Tensor::scalar(3.f)});
}

TEST_CASE("an operand larger than one tile is cut, with the same result") {
  const Tensor a = random_tensor(DType::f32, {300, 1000}, 1),
               b = random_tensor(DType::f32, {1000}, 2);
  const Tensor y = run1("Mul", {a, b});
  for (int64_t i = 0; i < y.elements(); ++i) {
    if (y.data<float>()[i] != a.data<float>()[i] * b.data<float>()[i % 1000]) FAIL("element " << i);
  }
  InterpretOptions reverse;
  reverse.reverse_tiles = true;
  check_identical(run("Mul", {a, b}, {}, 1, reverse)[0], y);
}

TEST_CASE("elementwise ops follow a blocked layout") {
  const Tensor a = random_tensor(DType::f32, {2, 32, 3, 5}, 1),
               b = random_tensor(DType::f32, {2, 32, 3, 5}, 2);
  check_channels16("Add", {a, b});
  check_channels16("Mul", {a, Tensor::scalar(3.f)});
  check_channels16("Exp", {a});
  check_channels16("Clip", {a, Tensor::scalar(0.f)});
  const OpTypes broadcast_types{
      {{DType::f32, {2, 32, 3, 5}, Layout::plain, ValueKind::tensor, true},
       {DType::f32, {32, 1, 1}, Layout::plain, ValueKind::tensor, true}},
      {{DType::f32, {2, 32, 3, 5}, Layout::plain, ValueKind::tensor, true}}};
  CHECK(test_catalogue().find("Add")->layouts(broadcast_types).inputs == 0);
}

TEST_CASE("elementwise ops say how they are sharded") {
  const OperandType matrix{DType::f32, {4, 6}, Layout::plain, ValueKind::tensor, true};
  const OperandType row{DType::f32, {6}, Layout::plain, ValueKind::tensor, true};
  const auto rules = [&](std::string_view op) {
    return test_catalogue().find(op)->sharding({matrix, row}, {matrix}, {});
  };
  const auto add = rules("Add");
  REQUIRE(add.size() == 3);
  CHECK(add[0].inputs == std::vector<Spread>{Spread::on(0), Spread{}});
  CHECK(add[1].inputs == std::vector<Spread>{Spread::on(1), Spread::on(0)});
  CHECK(add[1].outputs == std::vector<Spread>{Spread::on(1)});
  CHECK(add[2].inputs == std::vector<Spread>{Spread::sum(), Spread::sum()});
  CHECK(rules("Mul").size() == 4);
  CHECK(rules("Div").size() == 3);
  CHECK(rules("Max").size() == 2);
}

TEST_CASE("operands that do not fit are refused by name") {
  const Tensor a = floats({2}, {1, 2}), b = floats({3}, {1, 2, 3});
  for (std::string_view op : {"Add", "Max", "Pow", "Div"}) {
    CHECK(run_error(op, {a, b}).message() == cat(op, ": shapes do not broadcast: [2] and [3]"));
  }
  CHECK_THAT(run_error("Add", {a, int32s({1, 2})}).message(),
             Catch::Contains("expected float as input 0 has, received int32"));
  CHECK_THAT(run_error("Exp", {int32s({1})}).message(), Catch::Contains("expected one of"));
  CHECK(run_error("Add", {a}).message() == "Add: input 1 'B' is missing");
}

}  // namespace
}  // namespace leat::testing
