#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using testing::check_close;
using testing::check_gradients;
using testing::check_identical;
using testing::check_tiles;
using testing::random_tensor;
using testing::run1;
using testing::run_error;

Tensor naive_softmax(const Tensor& x, int axis, bool log) {
  Tensor y(DType::f64, x.shape());
  const int64_t size = x.shape()[axis], inner = x.shape().elements(axis + 1, x.shape().rank());
  for (int64_t line = 0; line < x.elements() / size; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < size; ++c) largest = std::max(largest, x.at(first + c * inner));
    for (int64_t c = 0; c < size; ++c) sum += std::exp(x.at(first + c * inner) - largest);
    for (int64_t c = 0; c < size; ++c) {
      const double value = x.at(first + c * inner) - largest - std::log(sum);
      y.set(first + c * inner, log ? value : std::exp(value));
    }
  }
  return y;
}

TEST_CASE("Softmax and LogSoftmax agree with f64 along any axis") {
  for (const Shape& shape : {Shape{3, 5, 7}, Shape{2, 40, 3}, Shape{1, 1, 5000}, Shape{4, 33, 1}}) {
    const Tensor x = random_tensor(DType::f32, shape, 5, -8, 8);
    for (int axis = 0; axis < 3; ++axis) {
      for (int64_t written : {axis, axis - 3}) {
        check_close(run1("Softmax", {x}, {{"axis", written}}),
                    naive_softmax(x, axis, false).cast(DType::f32), 2e-6, 1e-9);
        check_close(run1("LogSoftmax", {x}, {{"axis", written}}),
                    naive_softmax(x, axis, true).cast(DType::f32), 2e-6, 1e-6);
      }
    }
    check_identical(run1("Softmax", {x}), run1("Softmax", {x}, {{"axis", int64_t{-1}}}));
  }
}

TEST_CASE("Softmax of large, equal and masked scores is finite") {
  const float inf = std::numeric_limits<float>::infinity();
  check_identical(run1("Softmax", {Tensor::of<float>({1, 2}, {1e30f, 1e30f})}),
                  Tensor::of<float>({1, 2}, {0.5f, 0.5f}));
  check_identical(run1("Softmax", {Tensor::of<float>({1, 3}, {3, -inf, 3})}),
                  Tensor::of<float>({1, 3}, {0.5f, 0, 0.5f}));
  check_identical(run1("Softmax", {Tensor(DType::f32, {2, 0})}), Tensor(DType::f32, {2, 0}));
  CHECK(std::isnan(run1("Softmax", {Tensor::of<float>({2}, {std::nanf(""), 1})}).at(1)));
}

TEST_CASE("Softmax computes f16 and bf16 in float and f64 in double") {
  const Tensor x = random_tensor(DType::f32, {3, 50}, 9, -3, 3);
  for (const auto& [dtype, rtol] :
       {std::pair{DType::f16, 1e-3}, {DType::bf16, 8e-3}, {DType::f64, 1e-13}}) {
    const Tensor in = x.cast(dtype);
    check_close(run1("Softmax", {in}), naive_softmax(in, 1, false).cast(dtype), rtol, 1e-7);
    check_close(run1("LogSoftmax", {in}), naive_softmax(in, 1, true).cast(dtype), rtol, 1e-7);
  }
}

TEST_CASE("rows of a Softmax are apart") {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    check_tiles(op, {random_tensor(DType::f32, {7, 5, 30}, 1)});
    check_tiles(op, {random_tensor(DType::f64, {7, 5, 30}, 1)}, {{"axis", int64_t{1}}});
  }
  for (const char* op : {"leat.SoftmaxGrad", "leat.LogSoftmaxGrad"}) {
    check_tiles(op, {random_tensor(DType::f32, {7, 33}, 1), random_tensor(DType::f32, {7, 33}, 2)});
    check_tiles(op,
                {random_tensor(DType::f16, {7, 5, 3}, 1), random_tensor(DType::f16, {7, 5, 3}, 2)},
                {{"axis", int64_t{1}}});
  }
}

TEST_CASE("a wrong axis of Softmax is refused") {
  CHECK_THAT(run_error("Softmax", {Tensor(DType::f32, {2, 3})}, {{"axis", int64_t{2}}}).message(),
             Catch::Contains("expected in [-2, 1] for rank 2, received 2"));
  CHECK_THAT(run_error("leat.SoftmaxGrad", {Tensor(DType::f32, {2, 3}), Tensor(DType::f32, {2, 4})})
                 .message(),
             Catch::Contains("dy is [2,3], y is [2,4]"));
}

TEST_CASE("gradients of Softmax and LogSoftmax agree with finite differences") {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (int64_t axis : {0, 1, -1})
      check_gradients(op, {random_tensor(DType::f64, {3, 4, 2}, 3)}, {{"axis", axis}}, {0});
  }
}

}  // namespace
}  // namespace leat
