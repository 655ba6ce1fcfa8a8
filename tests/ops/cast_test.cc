#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor cast_to(const Tensor& x, DType dtype) {
  return run1("Cast", {x}, {{"to", int64_t{dtype_onnx_code(dtype)}}});
}

TEST_CASE("Cast converts between all types") {
  const Tensor x = Tensor::of<float>({4}, {0, 1, 2, 100});
  for (int from = 1; from < kDTypeCount; ++from) {
    for (int to = 1; to < kDTypeCount; ++to) {
      const auto a = static_cast<DType>(from), b = static_cast<DType>(to);
      INFO(a << " to " << b);
      check_identical(cast_to(x.cast(a), b), x.cast(a).cast(b));
      check_identical(run1("CastLike", {x.cast(a), Tensor(b, {7})}), x.cast(a).cast(b));
    }
  }
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
