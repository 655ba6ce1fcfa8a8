// The elements that the windows of DeformConv read.
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

TEST_CASE("windows read where their offsets move them, and nothing outside") {
  const Tensor x = counting(DType::f32, {1, 1, 3, 3}), kernel = ints({2, 2});
  Tensor offset(DType::f32, {1, 8, 2, 2});
  check_identical(
      run1("leat.DeformColumns", {x, offset, kernel}),
      Tensor::of<float>({1, 1, 4, 4}, {0, 1, 3, 4, 1, 2, 4, 5, 3, 4, 6, 7, 4, 5, 7, 8}));
  // Element 0 of the windows: half an element down and to the right in the first one, out of the
  // image in the second, half out of it in the third.
  offset.set(0, 0.5);
  offset.set(4, 0.5);
  offset.set(1, -2);
  offset.set(6, -0.5);
  Tensor mask(DType::f32, {1, 4, 2, 2});
  for (int64_t i = 0; i < mask.elements(); ++i) mask.set(i, i < 4 ? 2 : 1);
  check_identical(
      run1("leat.DeformColumns", {x, offset, kernel, mask}),
      Tensor::of<float>({1, 1, 4, 4}, {4, 0, 3, 8, 1, 2, 4, 5, 3, 4, 6, 7, 4, 5, 7, 8}));
}

TEST_CASE("windows refuse operands that do not fit") {
  const Tensor x(DType::f32, {1, 2, 3, 3}), kernel = ints({2, 2}), offset(DType::f32, {1, 8, 2, 2});
  const auto message = [&](const Tensor& moved, const Tensor& of, const Attrs& attrs = {},
                           const Tensor& mask = {}) {
    return run_error("leat.DeformColumns", {x, moved, of, mask}, attrs).message();
  };
  CHECK_THAT(message(Tensor(DType::f32, {1, 8, 2, 3}), kernel),
             Catch::Contains("expected an offset for each axis, element and window"));
  CHECK_THAT(message(Tensor(DType::f32, {1, 4, 2, 2}), kernel),
             Catch::Contains("expected an offset for each axis, element and window"));
  CHECK_THAT(message(offset, ints({2})), Catch::Contains("an axis for each size of the kernel"));
  CHECK_THAT(message(offset, ints({2, 0})), Catch::Contains("kernel: expected 1 to 3 sizes"));
  CHECK_THAT(message(offset, kernel, {{"offset_group", int64_t{3}}}),
             Catch::Contains("channels that the groups of offsets divide"));
  CHECK_THAT(message(offset, kernel, {{"strides", std::vector<int64_t>{1}}}),
             Catch::Contains("strides: expected 2 values of at least 1, received [1]"));
  CHECK_THAT(message(offset, kernel, {{"kernel_shape", std::vector<int64_t>{2, 3}}}),
             Catch::Contains("kernel_shape: expected the weights' [2,2]"));
  CHECK_THAT(message(offset, kernel, {}, Tensor(DType::f32, {1, 8, 2, 2})),
             Catch::Contains("expected a factor of the mask for each element and window"));
}

}  // namespace
}  // namespace leat::testing
