// Det, and its gradient, of matrices that are regular, singular or empty.
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

TEST_CASE("Det is the determinant of each matrix") {
  check_close(run1("Det", {Tensor::of<float>({2, 2}, {1, 2, 3, 4})}), Tensor::scalar<float>(-2));
  // The second one needs an exchange of rows, and the third one is singular.
  check_close(run1("Det", {Tensor::of<double>({3, 3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 4,  //
                                                          0, 2, 1, 1, 0, 0, 3, 1, 5,  //
                                                          1, 2, 3, 2, 4, 6, 1, 1, 1})}),
              Tensor::of<double>({3}, {18, -9, 0}));
  check_identical(run1("Det", {Tensor::of<float>({2, 1, 1}, {7, -3})}),
                  Tensor::of<float>({2}, {7, -3}));
  check_identical(run1("Det", {Tensor(DType::f32, {2, 0, 0})}), Tensor::of<float>({2}, {1, 1}));
  check_identical(run1("Det", {Tensor(DType::f32, {0, 3, 3})}), Tensor(DType::f32, {0}));
}

TEST_CASE("the gradient of Det is that of the cofactors, for singular matrices, too") {
  check_gradients("Det", {random_tensor(DType::f64, {3, 4, 4}, 5)}, {}, {0});
  // Of rank 3, 2 and 1.
  Tensor x = random_tensor(DType::f64, {3, 4, 4}, 6);
  double* const a = x.data<double>();
  for (int64_t j = 0; j < 4; ++j) {
    a[4 + j] = 2 * a[j];
    for (int64_t i = 2; i < 4; ++i) a[16 + 4 * i + j] = a[16 + 4 * (i - 2) + j];
    for (int64_t i = 1; i < 4; ++i) a[32 + 4 * i + j] = a[32 + j];
  }
  check_gradients("Det", {x}, {}, {0});
  check_close(gradients_of("Det", {Tensor::of<double>({3, 3}, {1, 2, 3, 2, 4, 6, 1, 1, 1})})[0],
              Tensor::of<double>({3, 3}, {-2, 4, -2, 1, -2, 1, 0, 0, 0}));
  check_close(gradients_of("Det", {Tensor(DType::f64, {1, 1})})[0],
              Tensor::of<double>({1, 1}, {1}));
  check_close(gradients_of("Det", {Tensor(DType::f64, {2, 2})})[0], Tensor(DType::f64, {2, 2}));
}

TEST_CASE("Det refuses what is no square matrix") {
  for (const Shape& shape : {Shape{3}, Shape{2, 3}, Shape{3, 3, 2}}) {
    CHECK_THAT(
        run_error("Det", {Tensor(DType::f32, shape)}).message(),
        Catch::Contains("X: expected square matrices of [...,M,M], received " + shape.to_string()));
  }
  CHECK_THAT(
      run_error("leat.DetGrad", {Tensor(DType::f32, {2}), Tensor(DType::f32, {3, 2, 2})}).message(),
      Catch::Contains("dY: expected [3], received [2]"));
}

}  // namespace
}  // namespace leat::testing
