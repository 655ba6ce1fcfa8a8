// Resize: what its modes give for small inputs, and what it refuses.
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor floats_of(std::initializer_list<float> values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}

Tensor row(std::initializer_list<float> values) {
  return Tensor::of<float>({1, 1, 1, static_cast<int64_t>(values.size())}, values);
}

const Tensor kNoRoi, kNoScales;

Attrs mode(const char* name, const char* coordinates) {
  return {{"mode", std::string(name)},
          {"coordinate_transformation_mode", std::string(coordinates)}};
}

TEST_CASE("Resize doubles a row") {
  const Tensor x = row({1, 3}), twice = floats_of({1, 1, 1, 2});
  check_identical(run1("Resize", {x, kNoRoi, twice}, mode("nearest", "asymmetric")),
                  row({1, 1, 3, 3}));
  check_identical(run1("Resize", {x, kNoRoi, twice}, mode("linear", "half_pixel")),
                  row({1, 1.5, 2.5, 3}));
  const Tensor four = Tensor::of<int64_t>({4}, {1, 1, 1, 4});
  check_close(run1("Resize", {x, kNoRoi, kNoScales, four}, mode("linear", "align_corners")),
              row({1, 1 + 2 / 3.f, 1 + 4 / 3.f, 3}), 1e-6);
}

TEST_CASE("Resize takes an empty batch with sizes") {
  const Tensor x(DType::f32, {0, 1, 1, 2});
  const auto sizes = [](int64_t batch) { return Tensor::of<int64_t>({4}, {batch, 1, 1, 4}); };
  CHECK(run1("Resize", {x, kNoRoi, kNoScales, sizes(0)}, mode("linear", "half_pixel")).shape() ==
        Shape({0, 1, 1, 4}));
  CHECK(run_error("Resize", {x, kNoRoi, kNoScales, sizes(2)}).message() ==
        "Resize: axis 0 of size 0: expected a size of 0, received 2");
}

TEST_CASE("Resize keeps the aspect ratio of axes that have elements") {
  Attrs attrs = mode("linear", "half_pixel");
  attrs["axes"] = std::vector<int64_t>{2, 3};
  attrs["keep_aspect_ratio_policy"] = std::string("not_larger");
  const Tensor x(DType::f32, {1, 1, 0, 4}), sizes = Tensor::of<int64_t>({2}, {0, 8});
  CHECK(run1("Resize", {x, kNoRoi, kNoScales, sizes}, attrs).shape() == Shape({1, 1, 0, 8}));
}

TEST_CASE("Resize shrinks with and without all elements") {
  const Tensor x = row({0, 4, 8, 12}), half = floats_of({1, 1, 1, 0.5f});
  check_identical(run1("Resize", {x, kNoRoi, half}, mode("linear", "half_pixel")), row({2, 10}));
  Attrs antialias = mode("linear", "half_pixel");
  antialias["antialias"] = int64_t{1};
  // The first element counts for the three that lie beyond it.
  check_close(run1("Resize", {x, kNoRoi, half}, antialias), row({2.5, 9.5}), 1e-6);
}

TEST_CASE("Resize copies elements of any type that are nearest") {
  const Tensor x = Tensor::of<int64_t>({2, 2}, {1, 2, 3, INT64_MAX});
  const Tensor scales = floats_of({1, 2});
  check_identical(run1("Resize", {x, kNoRoi, scales}, mode("nearest", "half_pixel")),
                  Tensor::of<int64_t>({2, 4}, {1, 1, 2, 2, 3, 3, INT64_MAX, INT64_MAX}));
  check_identical(run1("Resize", {x, kNoRoi, floats_of({1, 1})}), x);
  const Tensor none(DType::f32, {2, 0});
  check_identical(run1("Resize", {none, kNoRoi, floats_of({2, 2})}), Tensor(DType::f32, {4, 0}));
}

TEST_CASE("Resize takes the product of a size and a scale in float") {
  const Tensor x(DType::f32, {10, 20});
  CHECK(run1("Resize", {x, kNoRoi, floats_of({0.7f, 0.9f})}).shape() == Shape({7, 18}));
}

TEST_CASE("Resize keeps a symbolic batch") {
  const ValueType x =
      tensor_type(DType::f32, {Dim::of_symbol(1), Dim::of(3), Dim::of(4), Dim::of(5)});
  const ValueType four = tensor_type(DType::f32, Shape{4});
  const auto outcome =
      infer("Resize", {x, ValueType{}, four}, {}, 1, {Tensor(), Tensor(), floats_of({1, 1, 2, 2})});
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[0].shape ==
        SymbolicShape{Dim::of_symbol(1), Dim::of(3), Dim::of(8), Dim::of(10)});
}

TEST_CASE("Resize refuses what it cannot mean") {
  const Tensor x = row({1, 3});
  const auto error = [&](std::vector<Tensor> operands, const Attrs& attrs) {
    operands.insert(operands.begin(), x);
    return std::string(run_error("Resize", operands, attrs).message());
  };
  CHECK(error({kNoRoi, floats_of({1, 2})}, {}) ==
        "Resize: expected scales or sizes, one for each of 4 axes; received 2 scales and 0 sizes");
  CHECK(error({kNoRoi, floats_of({1, 1, 1, -2})}, {}) ==
        "Resize: axis 3 of size 2: expected a scale above 0, received -2");
  CHECK(error({kNoRoi, floats_of({1, 1, 1, 2})}, mode("bicubic", "half_pixel")) ==
        "Resize: mode: expected one of nearest, linear, cubic; received 'bicubic'");
  CHECK(error({kNoRoi, floats_of({1, 1, 1, 2})}, mode("linear", "tf_crop_and_resize")) ==
        "Resize: roi: expected 8 numbers, a start and an end for each axis; received 0");
  CHECK(error({kNoRoi, floats_of({2})}, {{"axes", std::vector<int64_t>{4}}}) ==
        "Resize: axes: expected different axes of rank 4, received 4");
  CHECK(run_error("leat.ResizeGrad", {x}, {}).message() ==
        "leat.ResizeGrad: input 4: expected a shape, there is none");
}

}  // namespace
}  // namespace leat::testing
