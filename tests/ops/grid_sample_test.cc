// GridSample: places by hand, and what it refuses. The conformance suite has its gradients.
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

// The samples of 1, 2, 3 at places of one axis.
Tensor of_row(const std::vector<float>& places, const Attrs& attrs) {
  const Tensor x = Tensor::of<float>({1, 1, 3}, {1, 2, 3});
  const auto count = static_cast<int64_t>(places.size());
  return run1("GridSample", {x, Tensor::of<float>({1, count, 1}, places)}, attrs);
}

Attrs sampled(const char* mode, const char* padding, int64_t align) {
  return {{"mode", std::string(mode)},
          {"padding_mode", std::string(padding)},
          {"align_corners", align}};
}

TEST_CASE("GridSample reads between elements and beyond the edges") {
  const std::vector<float> places{-1, -0.5f, 0, 1, 1.5f};
  check_close(of_row(places, sampled("linear", "zeros", 1)),
              Tensor::of<float>({1, 1, 5}, {1, 1.5f, 2, 3, 1.5f}));
  check_close(of_row(places, sampled("linear", "zeros", 0)),
              Tensor::of<float>({1, 1, 5}, {0.5f, 1.25f, 2, 1.5f, 0}));
  check_close(of_row(places, sampled("linear", "border", 0)),
              Tensor::of<float>({1, 1, 5}, {1, 1.25f, 2, 3, 3}));
  check_close(of_row(places, sampled("linear", "reflection", 1)),
              Tensor::of<float>({1, 1, 5}, {1, 1.5f, 2, 3, 2.5f}));
  check_close(of_row({-0.6f, 0.4f, 5}, sampled("nearest", "zeros", 1)),
              Tensor::of<float>({1, 1, 3}, {1, 2, 0}));
}

TEST_CASE("a place that is no number lies outside") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_identical(of_row({nan, 1e30f}, sampled("linear", "zeros", 1)),
                  Tensor::of<float>({1, 1, 2}, {0, 0}));
  check_identical(of_row({nan, 1e30f}, sampled("linear", "border", 1)),
                  Tensor::of<float>({1, 1, 2}, {1, 3}));
}

TEST_CASE("GridSample refuses operands that do not fit, by name") {
  const Tensor x(DType::f32, {1, 1, 3, 3}), wrong(DType::f32, {1, 2, 2, 3});
  CHECK(run_error("GridSample", {x, wrong}).message().find("expected X of [N,C,sizes...]") !=
        std::string::npos);
  const Tensor grid(DType::f32, {1, 2, 2, 2});
  CHECK(run_error("GridSample", {x, grid}, sampled("round", "zeros", 0)).message().find("mode: ") !=
        std::string::npos);
  CHECK(run_error("GridSample", {x, grid}, sampled("linear", "wrap", 0))
            .message()
            .find("padding_mode: ") != std::string::npos);
}

// The kernel reads and writes as many elements as the shapes of X and the grid tell.
TEST_CASE("the gradient of GridSample refuses operands that do not fit") {
  const Tensor x(DType::f32, {1, 2, 3, 3}), grid(DType::f32, {1, 4, 5, 2}),
      dy(DType::f32, {1, 2, 4, 5});
  CHECK(run("leat.GridSampleGrad", {dy, x, grid}, {}, 2).size() == 2);
  for (const Shape& shape : {Shape{1, 2, 1, 1}, Shape{1, 1, 4, 5}, Shape{1, 2, 4}})
    CHECK(run_error("leat.GridSampleGrad", {Tensor(DType::f32, shape), x, grid}, {}, 2)
              .message()
              .find("dy of [N,C,places...]") != std::string::npos);
  CHECK(!run_error("leat.GridSampleGrad", {dy, x, Tensor(DType::f32, {1, 4, 5, 1})}, {}, 2).ok());
}

}  // namespace
}  // namespace leat::testing
