#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor cast_to(const Tensor& x, DType dtype) {
  return run1("Cast", {x}, {{"to", int64_t{dtype_onnx_code(dtype)}}});
}

TEST_CASE("Cast converts between all types") {
  const Tensor x = Tensor::of<float>({4}, {0, 1, 2, 64});
  for (int from = 1; from < kDTypeCount; ++from) {
    for (int to = 1; to < kDTypeCount; ++to) {
      const auto a = static_cast<DType>(from), b = static_cast<DType>(to);
      INFO(a << " to " << b);
      check_identical(cast_to(x.cast(a), b), x.cast(a).cast(b));
      check_identical(run1("CastLike", {x.cast(a), Tensor(b, {7})}), x.cast(a).cast(b));
    }
  }
}

TEST_CASE("Cast to floats of 8 bits takes its rules from attributes") {
  const auto cast = [](const Tensor& x, DType to, bool saturate, const char* mode = "up") {
    Attrs attrs{{"to", int64_t{dtype_onnx_code(to)}},
                {"saturate", int64_t{saturate}},
                {"round_mode", std::string(mode)}};
    const Tensor y = run1("Cast", {x}, attrs);
    attrs.erase("to");
    check_identical(run1("CastLike", {x, Tensor(to, {2})}, attrs), y);
    return y.cast(DType::f32);
  };
  const Tensor x = Tensor::of<float>({5}, {1000, -1000, INFINITY, 0.3f, -0.0f});
  check_identical(cast(x, DType::f8e4m3fn, true),
                  Tensor::of<float>({5}, {448, -448, 448, 0.3125f, -0.0f}));
  check_identical(cast(x, DType::f8e5m2, false),
                  Tensor::of<float>({5}, {1024, -1024, INFINITY, 0.3125f, -0.0f}));
  const Tensor nans = cast(x, DType::f8e4m3fnuz, false);
  CHECK(std::isnan(nans.at(0)));
  CHECK(std::isnan(nans.at(2)));
  check_identical(cast(x.cast(DType::bf16), DType::f6e3m2, true),
                  Tensor::of<float>({5}, {28, -28, 28, 0.3125f, -0.0f}));
  const Tensor powers = Tensor::of<double>({3}, {1.1, 3, 6.5});
  check_identical(cast(powers, DType::f8e8m0, true), Tensor::of<float>({3}, {2, 4, 8}));
  check_identical(cast(powers, DType::f8e8m0, true, "down"), Tensor::of<float>({3}, {1, 2, 4}));
  check_identical(cast(powers, DType::f8e8m0, true, "nearest"), Tensor::of<float>({3}, {1, 4, 8}));
  CHECK(run_error("Cast", {x}, {{"to", int64_t{24}}, {"round_mode", std::string("even")}})
            .message() == "Cast: round_mode: expected up, down or nearest, received 'even'");
}

TEST_CASE("narrow types are moved by the ops that move elements") {
  const Tensor x = counting(DType::f32, {2, 3}).cast(DType::i4);
  const Tensor axes = ints({0}), two = ints({2, 2, 3});
  check_identical(run1("Transpose", {x}),
                  Tensor::of<float>({3, 2}, {0, 3, 1, 4, 2, 5}).cast(DType::i4));
  check_identical(run1("Reshape", {x, ints({3, 2})}), x.reshaped({3, 2}));
  check_identical(run1("Concat", {x, x}, {{"axis", int64_t{1}}}),
                  Tensor::of<float>({2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}).cast(DType::i4));
  check_identical(run1("Slice", {x, ints({1}), ints({2}), axes}),
                  Tensor::of<float>({1, 3}, {3, 4, 5}).cast(DType::i4));
  check_identical(run1("Gather", {x, ints({1, 0})}, {{"axis", int64_t{0}}}),
                  Tensor::of<float>({2, 3}, {3, 4, 5, 0, 1, 2}).cast(DType::i4));
  check_identical(
      run1("Expand", {x, two}),
      Tensor::of<float>({2, 2, 3}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}).cast(DType::i4));
  const Tensor yes = Tensor::of<bool>({3}, {true, false, true});
  check_identical(run1("Where", {yes, x, Tensor::scalar_of(DType::i4, 7)}),
                  Tensor::of<float>({2, 3}, {0, 7, 2, 3, 7, 5}).cast(DType::i4));
  // They are for storage alone.
  CHECK_THAT(run_error("Add", {x, x}).message(), Catch::Contains("received int4"));
}

TEST_CASE("Cast of floats to integers cuts toward zero and saturates") {
  const Tensor x = Tensor::of<float>({7}, {-1.9f, 1.9f, 300, -300, INFINITY, -INFINITY, NAN});
  check_identical(cast_to(x, DType::i8), Tensor::of<int8_t>({7}, {-1, 1, 127, -128, 127, -128, 0}));
  check_identical(cast_to(x, DType::u8), Tensor::of<uint8_t>({7}, {0, 1, 255, 0, 255, 0, 0}));
  const auto most = std::numeric_limits<int64_t>::max(),
             least = std::numeric_limits<int64_t>::min();
  check_identical(cast_to(x, DType::i64),
                  Tensor::of<int64_t>({7}, {-1, 1, 300, -300, most, least, 0}));
  check_identical(cast_to(x, DType::boolean),
                  Tensor::of<bool>({7}, {true, true, true, true, true, true, true}));
  check_identical(cast_to(Tensor::of<int32_t>({2}, {257, -1}), DType::u8),
                  Tensor::of<uint8_t>({2}, {1, 255}));
}

TEST_CASE("Cast passes gradients between floats") {
  check_gradients("Cast", {random_tensor(DType::f64, {3}, 1)},
                  {{"to", int64_t{dtype_onnx_code(DType::f64)}}}, {0});
  const auto grads = gradients_of("Cast", {random_tensor(DType::f64, {3}, 1)},
                                  {{"to", int64_t{dtype_onnx_code(DType::f32)}}});
  check_identical(grads[0], Tensor::of<double>({3}, {1, 1, 1}));
}

TEST_CASE("tiles of Cast equal the whole") {
  const Tensor x = random_tensor(DType::f32, {7, 3}, 1, -9, 9);
  check_tiles("Cast", {x}, {{"to", int64_t{dtype_onnx_code(DType::bf16)}}});
  check_tiles("CastLike", {x, Tensor(DType::i32, {7, 9})});
}

TEST_CASE("Cast refuses a type that it does not know") {
  const Tensor x = Tensor::scalar(1.f);
  CHECK(run_error("Cast", {x}, {{"to", int64_t{8}}}).message() ==
        "Cast: to: expected the code of a numeric type or bool, received 8");
  CHECK(run_error("Cast", {x}).message() == "Cast: attribute 'to' (int) is missing");
}

TEST_CASE("BitCast keeps the bits, and gives them another type") {
  const auto cast = [](const Tensor& x, DType to) {
    return run1("BitCast", {x}, {{"to", int64_t{dtype_onnx_code(to)}}});
  };
  const Tensor x = Tensor::of<float>({4}, {1, -2, 0.5f, -0.0f});
  const Tensor bits = cast(x, DType::u32);
  check_identical(bits,
                  Tensor::of<uint32_t>({4}, {0x3f800000, 0xc0000000, 0x3f000000, 0x80000000}));
  check_identical(cast(bits, DType::f32), x);
  check_identical(cast(Tensor::of<int64_t>({2}, {-1, 0}), DType::u64),
                  Tensor::of<uint64_t>({2}, {~uint64_t{0}, 0}));
  check_identical(cast(Tensor::of<uint16_t>({1}, {0x3c00}), DType::f16).cast(DType::f32),
                  Tensor::of<float>({1}, {1}));
  check_identical(cast(Tensor::of<bool>({2}, {true, false}), DType::i8),
                  Tensor::of<int8_t>({2}, {1, 0}));
  // A bool has two values: bits of another number are true.
  check_identical(cast(Tensor::of<uint8_t>({3}, {0, 1, 6}), DType::boolean),
                  Tensor::of<bool>({3}, {false, true, true}));
  CHECK_THAT(run_error("BitCast", {x}, {{"to", int64_t{7}}}).message(),
             Catch::Contains("to: expected a type with the 32 bits of float, received int64"));
  CHECK_THAT(run_error("BitCast", {x}, {{"to", int64_t{8}}}).message(),
             Catch::Contains("to: expected the code of a numeric type or bool, received 8"));
}

}  // namespace
}  // namespace leat::testing
