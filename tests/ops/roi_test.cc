// RoiAlign and MaxRoiPool: values by hand, regions that leave their image, and refusals.
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();

// The image of the elements 0 to 15.
Tensor image_of_16() { return counting(DType::f32, {1, 1, 4, 4}); }

Attrs of_two(const char* mode, const char* coordinates, int64_t samples = 1) {
  return {{"mode", std::string(mode)},
          {"coordinate_transformation_mode", std::string(coordinates)},
          {"sampling_ratio", samples},
          {"output_height", int64_t{2}},
          {"output_width", int64_t{2}}};
}

Tensor aligned(const std::vector<float>& roi, const Attrs& attrs) {
  return run1("RoiAlign", {image_of_16(), Tensor::of<float>({1, 4}, roi), ints({0})}, attrs);
}

TEST_CASE("RoiAlign samples the bins of a region") {
  const Shape two{1, 1, 2, 2};
  check_close(aligned({0, 0, 4, 4}, of_two("avg", "half_pixel")),
              Tensor::of<float>(two, {2.5f, 4.5f, 10.5f, 12.5f}));
  // As many samples as a bin has elements: the centres of all.
  check_close(aligned({0, 0, 4, 4}, of_two("avg", "half_pixel", 0)),
              Tensor::of<float>(two, {2.5f, 4.5f, 10.5f, 12.5f}));
  // ONNX takes the largest weighted corner, not the largest sample.
  check_close(aligned({0, 0, 4, 4}, of_two("max", "half_pixel")),
              Tensor::of<float>(two, {1.25f, 1.75f, 3.25f, 3.75f}));
  // A region that is too small is one element long.
  check_close(aligned({1, 1, 1.2f, 1.2f}, of_two("avg", "output_half_pixel")),
              Tensor::of<float>(two, {6.25f, 6.75f, 8.25f, 8.75f}));
}

TEST_CASE("a region outside of its image is of zeros, and one of no length has no samples") {
  const Tensor zeros(DType::f32, {1, 1, 2, 2});
  for (const char* mode : {"avg", "max"}) {
    check_identical(aligned({-10, -10, -8, -8}, of_two(mode, "half_pixel")), zeros);
    check_identical(aligned({3, 3, 1, 1}, of_two(mode, "half_pixel", 0)), zeros);
  }
}

TEST_CASE("RoiAlign refuses regions and operands that do not fit") {
  const Attrs attrs = of_two("avg", "half_pixel", 0);
  const auto message = [&](std::vector<float> roi, int64_t image, const Attrs& with) {
    return run_error("RoiAlign", {image_of_16(), Tensor::of<float>({1, 4}, roi), ints({image})},
                     with)
        .message();
  };
  CHECK_THAT(message({0, 0, 1, 1}, 1, attrs),
             Catch::Contains("batch_indices: expected 0 to 0, received 1 for region 0"));
  CHECK_THAT(message({0, 0, kNaN, 1}, 0, attrs), Catch::Contains("rois: expected finite"));
  CHECK_THAT(message({0, 0, 1e8f, 1}, 0, attrs), Catch::Contains("at most 65536 samples"));
  CHECK_THAT(message({0, 0, 1, 1}, 0, of_two("sum", "half_pixel")),
             Catch::Contains("mode: expected avg or max, received 'sum'"));
  CHECK_THAT(message({0, 0, 1, 1}, 0, of_two("avg", "asymmetric")),
             Catch::Contains("coordinate_transformation_mode: expected half_pixel or"));
  CHECK_THAT(
      run_error("RoiAlign", {image_of_16(), Tensor(DType::f32, {1, 5}), ints({0})}).message(),
      Catch::Contains("rois: expected [regions,4], received [1,5]"));
  CHECK_THAT(
      run_error("RoiAlign", {image_of_16(), Tensor(DType::f32, {1, 4}), ints({0, 0})}).message(),
      Catch::Contains("batch_indices: expected one for each region, [1], received [2]"));
}

Tensor largest_in(const std::vector<float>& roi, std::vector<int64_t> pooled) {
  return run1("MaxRoiPool", {image_of_16(), Tensor::of<float>({1, 5}, roi)},
              {{"pooled_shape", std::move(pooled)}});
}

TEST_CASE("MaxRoiPool takes the largest element of each bin, whose ends it rounds outward") {
  const Shape two{1, 1, 2, 2};
  check_identical(largest_in({0, 0, 0, 3, 3}, {2, 2}), Tensor::of<float>(two, {5, 7, 13, 15}));
  check_identical(largest_in({0, 0, 0, 2, 2}, {2, 2}), Tensor::of<float>(two, {5, 6, 9, 10}));
  check_identical(largest_in({0, 1, 1, 2, 2}, {1, 1}), Tensor::of<float>({1, 1, 1, 1}, {10}));
  // Outside of the image.
  check_identical(largest_in({0, 10, 10, 12, 12}, {1, 2}), Tensor(DType::f32, {1, 1, 1, 2}));
  check_identical(run1("MaxRoiPool", {image_of_16(), Tensor::of<float>({1, 5}, {0, 2, 2, 6, 6})},
                       {{"pooled_shape", std::vector<int64_t>{1, 1}}, {"spatial_scale", 0.5}}),
                  Tensor::of<float>({1, 1, 1, 1}, {15}));
}

TEST_CASE("MaxRoiPool refuses regions and operands that do not fit") {
  const auto message = [](const std::vector<float>& roi, std::vector<int64_t> pooled) {
    const auto columns = static_cast<int64_t>(roi.size());
    return run_error("MaxRoiPool", {image_of_16(), Tensor::of<float>({1, columns}, roi)},
                     {{"pooled_shape", std::move(pooled)}})
        .message();
  };
  CHECK_THAT(message({1, 0, 0, 1, 1}, {1, 1}), Catch::Contains("rois: expected images 0 to 0"));
  CHECK_THAT(message({kNaN, 0, 0, 1, 1}, {1, 1}), Catch::Contains("rois: expected images"));
  CHECK_THAT(message({0, 0, 0, kNaN, 1}, {1, 1}), Catch::Contains("finite coordinates"));
  CHECK_THAT(message({0, 0, 0, 1}, {1, 1}), Catch::Contains("rois: expected [regions,5]"));
  CHECK_THAT(message({0, 0, 0, 1, 1}, {0, 1}), Catch::Contains("pooled_shape: expected"));
}

}  // namespace
}  // namespace leat::testing
