// Tests the codes of narrow types against the definition of their numbers, and roundings against a
// search among all codes.
#include "devices/base/narrow.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "devices/core/tensor.h"
#include "tests/catch.h"

namespace leat {
namespace {

constexpr DType kFloatTypes[] = {DType::f8e4m3fn,   DType::f8e4m3fnuz, DType::f8e5m2,
                                 DType::f8e5m2fnuz, DType::f6e2m3,     DType::f6e3m2,
                                 DType::f4e2m1};

std::vector<DType> narrow_types() {
  std::vector<DType> all;
  for (int i = 1; i < kDTypeCount; ++i) {
    if (is_narrow(static_cast<DType>(i))) all.push_back(static_cast<DType>(i));
  }
  return all;
}

// The code of the number nearest to x, with ties to the even code, of those with its sign.
uint8_t nearest(DType dtype, double x) {
  const NarrowFormat format = narrow_format(dtype);
  int best = -1;
  double distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code <= format.largest; ++code) {
    const double away = std::abs(std::abs(x) - narrow_value(format, static_cast<uint8_t>(code)));
    if (away < distance || (away == distance && code % 2 == 0)) {
      best = code;
      distance = away;
    }
  }
  const bool one_zero = format.kind == NarrowFormat::Kind::one_zero;
  const bool negative = std::signbit(x) && !(one_zero && best == 0);
  return static_cast<uint8_t>(best | (negative ? 1 << (format.bits - 1) : 0));
}

uint8_t code_of(DType dtype, double x, bool saturate = true) {
  return narrow_code(narrow_format(dtype), x, {.saturate = saturate});
}
float value_of(DType dtype, int code) {
  return narrow_value(narrow_format(dtype), static_cast<uint8_t>(code));
}

}  // namespace

TEST_CASE("narrow types are twelve, of 2 to 8 bits and a byte each") {
  CHECK(narrow_types().size() == 12);
  for (const DType dtype : narrow_types()) {
    CHECK(dtype_size(dtype) == 1);
    CHECK(dtype_bits(dtype) == narrow_format(dtype).bits);
    CHECK_FALSE(is_float(dtype));
    CHECK_FALSE(is_int(dtype));
    CHECK(kStoredTypes.has(dtype));
    CHECK_FALSE(kAllTypes.has(dtype));
    CHECK(dtype_from_name(dtype_name(dtype)) == dtype);
    CHECK(dtype_from_onnx_code(dtype_onnx_code(dtype)) == dtype);
  }
  CHECK(dtype_bits(DType::f64) == 64);
}

TEST_CASE("codes stand for the numbers of their formats") {
  CHECK(value_of(DType::f8e4m3fn, 0x7e) == 448);
  CHECK(value_of(DType::f8e4m3fn, 0x01) == std::ldexp(1.f, -9));
  CHECK(std::isnan(value_of(DType::f8e4m3fn, 0x7f)));
  CHECK(std::isnan(value_of(DType::f8e4m3fn, 0xff)));
  CHECK(value_of(DType::f8e4m3fnuz, 0x7f) == 240);
  CHECK(std::isnan(value_of(DType::f8e4m3fnuz, 0x80)));
  CHECK(value_of(DType::f8e5m2, 0x7b) == 57344);
  CHECK(value_of(DType::f8e5m2, 0xfc) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(value_of(DType::f8e5m2, 0x7d)));
  CHECK(value_of(DType::f8e5m2fnuz, 0x7f) == 57344);
  CHECK(value_of(DType::f8e5m2fnuz, 0x01) == std::ldexp(1.f, -17));
  CHECK(value_of(DType::f8e8m0, 0) == std::ldexp(1.f, -127));
  CHECK(value_of(DType::f8e8m0, 254) == std::ldexp(1.f, 127));
  CHECK(std::isnan(value_of(DType::f8e8m0, 255)));
  CHECK(value_of(DType::f6e2m3, 0x1f) == 7.5f);
  CHECK(value_of(DType::f6e3m2, 0x3f) == -28);
  const float fours[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) CHECK(value_of(DType::f4e2m1, code) == fours[code]);
  CHECK(std::signbit(value_of(DType::f4e2m1, 8)));
  for (int code = 0; code < 16; ++code) {
    CHECK(value_of(DType::u4, code) == static_cast<float>(code));
    CHECK(value_of(DType::i4, code) == static_cast<float>(code < 8 ? code : code - 16));
  }
  CHECK(value_of(DType::i2, 2) == -2);
  CHECK(value_of(DType::u2, 3) == 3);
}

TEST_CASE("a number that a code stands for has that code") {
  for (const DType dtype : narrow_types()) {
    const NarrowFormat format = narrow_format(dtype);
    for (int code = 0; code < 1 << format.bits; ++code) {
      INFO(dtype << " " << code);
      const float value = value_of(dtype, code);
      if (!std::isnan(value)) CHECK(code_of(dtype, value, false) == code);
      // Bits above those of the type are not read.
      if (format.bits < 8) CHECK(value_of(dtype, code | 0xc0) == value_of(dtype, code & 0x3f));
    }
  }
}

TEST_CASE("floats are rounded to the nearest code, with ties to even") {
  std::mt19937_64 random(7);
  for (const DType dtype : kFloatTypes) {
    const NarrowFormat format = narrow_format(dtype);
    const double most = narrow_value(format, format.largest);
    std::vector<double> numbers{0.0, -0.0, 1e-30, -1e-30, 5e-324, most, -most};
    for (int code = 0; code < format.largest; ++code) {
      const double low = value_of(dtype, code), high = value_of(dtype, code + 1);
      const double middle = (low + high) / 2;
      for (const double x : {middle, std::nextafter(middle, 0), std::nextafter(middle, 1e9)}) {
        numbers.push_back(x);
        numbers.push_back(-x);
      }
    }
    std::uniform_real_distribution<double> exponent(-25, std::log2(most));
    for (int i = 0; i < 10'000; ++i)
      numbers.push_back(std::exp2(exponent(random)) * (random() % 2 == 0 ? 1 : -1));
    for (const double x : numbers) {
      INFO(dtype << " " << x);
      REQUIRE(code_of(dtype, x) == nearest(dtype, x));
    }
  }
}

// The tables of ONNX's Cast.
TEST_CASE("numbers beyond the range saturate, or become infinities or NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double x : {1e6, 1e300, inf}) {
    INFO(x);
    CHECK(code_of(DType::f8e4m3fn, x) == 0x7e);
    CHECK(code_of(DType::f8e4m3fn, -x) == 0xfe);
    CHECK(code_of(DType::f8e4m3fnuz, -x) == 0xff);
    CHECK(code_of(DType::f8e5m2, x) == 0x7b);
    CHECK(code_of(DType::f8e5m2fnuz, -x) == 0xff);
    CHECK(code_of(DType::f8e4m3fn, x, false) == 0x7f);
    CHECK(code_of(DType::f8e4m3fn, -x, false) == 0xff);
    CHECK(code_of(DType::f8e4m3fnuz, -x, false) == 0x80);
    CHECK(code_of(DType::f8e5m2, x, false) == 0x7c);
    CHECK(code_of(DType::f8e5m2, -x, false) == 0xfc);
    CHECK(code_of(DType::f8e5m2fnuz, x, false) == 0x80);
    // These have no code for them.
    CHECK(code_of(DType::f4e2m1, -x, false) == 0x0f);
    CHECK(code_of(DType::f6e2m3, x, false) == 0x1f);
    CHECK(code_of(DType::f6e3m2, x, false) == 0x1f);
  }
  // The last number that is rounded down, and the first one that is not.
  CHECK(code_of(DType::f8e4m3fn, 464, false) == 0x7e);
  CHECK(code_of(DType::f8e4m3fn, std::nextafter(464., 500.), false) == 0x7f);
  CHECK(code_of(DType::f8e4m3fn, nan) == 0x7f);
  CHECK(code_of(DType::f8e4m3fnuz, nan) == 0x80);
  CHECK(code_of(DType::f8e5m2, nan) == 0x7e);
  CHECK(code_of(DType::f4e2m1, nan) == 0x08);
  CHECK(code_of(DType::f8e4m3fnuz, -0.0) == 0);
  CHECK(code_of(DType::f8e4m3fn, -0.0) == 0x80);
}

TEST_CASE("powers of two are rounded as the rule says") {
  const NarrowFormat format = narrow_format(DType::f8e8m0);
  const auto code = [&](double x, PowerRounding power, bool saturate = true) {
    return narrow_code(format, x, {saturate, power});
  };
  using enum PowerRounding;
  CHECK(code(1, up) == 127);
  CHECK(code(1.1, up) == 128);
  CHECK(code(1.9, down) == 127);
  CHECK(code(1.49, nearest) == 127);
  CHECK(code(1.5, nearest) == 128);
  CHECK(code(-4, up) == 129);
  CHECK(code(0, up) == 0);
  CHECK(code(0, nearest, false) == 255);
  CHECK(code(1e-60, up) == 0);
  CHECK(code(1e-60, up, false) == 255);
  CHECK(code(std::ldexp(1., -127), up, false) == 0);
  CHECK(code(std::ldexp(1.5, 127), up) == 254);
  CHECK(code(std::ldexp(1.5, 127), up, false) == 255);
  CHECK(code(std::ldexp(1.5, 127), down, false) == 254);
  CHECK(code(1e300, up) == 254);
  CHECK(code(1e300, up, false) == 255);
  CHECK(code(std::nan(""), up) == 255);
}

TEST_CASE("integers of 4 and 2 bits wrap around") {
  CHECK(code_of(DType::i4, -9) == 7);
  CHECK(code_of(DType::i4, -1.9) == 15);
  CHECK(code_of(DType::u4, 17.9) == 1);
  CHECK(code_of(DType::i2, 2) == 2);
  CHECK(code_of(DType::u2, 7) == 3);
  CHECK(code_of(DType::u4, std::numeric_limits<double>::infinity()) == 0);
  CHECK(code_of(DType::u4, std::nan("")) == 0);
  CHECK(code_of(DType::u4, 1e30) == 0);
}

TEST_CASE("tensors of narrow types are read, set, cast and printed as numbers") {
  Tensor x(DType::f8e4m3fn, {3});
  x.set(0, 1.5);
  x.set(1, -1000);
  x.set(2, 0.1);
  CHECK(x.bytes() == 3);
  CHECK(x.at(1) == -448);
  CHECK(x.to_string() == "float8e4m3fn[3] {1.5, -448, 0.101562}");
  CHECK(x.cast(DType::f32).identical(Tensor::of<float>({3}, {1.5f, -448, 0.1015625f})));
  const Tensor large = Tensor::of<int64_t>({2}, {(int64_t{1} << 60) + 5, -3});
  CHECK(large.cast(DType::i4).cast(DType::i64).identical(Tensor::of<int64_t>({2}, {5, -3})));
  CHECK(large.cast(DType::u2).to_string() == "uint2[2] {1, 1}");
  CHECK(Tensor::scalar_of(DType::i4, -2).int_at(0) == -2);
}

}  // namespace leat
