// leat.CropImages, and leat.AugmentImages and Resize against torchvision. The references are from
// tests/peers/transform_references.py.
#include "ops/definitions/image.h"

#include <cmath>
#include <map>

#include "devices/base/files.h"
#include "ops/formats/npz.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

const std::map<std::string, ImageStep> kNamedSteps = {
    {"brightness", ImageStep::brightness},   {"contrast", ImageStep::contrast},
    {"saturation", ImageStep::saturation},   {"hue", ImageStep::hue},
    {"sharpness", ImageStep::sharpness},     {"posterize", ImageStep::posterize},
    {"solarize", ImageStep::solarize},       {"auto_contrast", ImageStep::auto_contrast},
    {"equalize", ImageStep::equalize},       {"shear_x", ImageStep::shear_x},
    {"shear_y", ImageStep::shear_y},         {"translate_x", ImageStep::translate_x},
    {"translate_y", ImageStep::translate_y}, {"rotate", ImageStep::rotate},
};

std::map<std::string, Tensor> image_references() {
  const auto file =
      real_files().open(std::string(LEAT_SOURCE_DIR) + "/tests/ops/image_references.npz");
  REQUIRE(file.ok());
  const auto members = read_npz_directory(**file);
  REQUIRE(members.ok());
  std::map<std::string, Tensor> out;
  for (const NpzMember& member : *members) {
    auto read = read_npz_member(**file, member);
    REQUIRE(read.ok());
    out[member.name] = std::move(*read);
  }
  return out;
}

Tensor one_image(const Tensor& image) {
  Shape shape{1};
  for (const int64_t size : image.shape()) shape.push_back(size);
  return image.reshaped(shape);
}

Tensor augmented(const Tensor& image, ImageStep step, double value) {
  return run1("leat.AugmentImages",
              {one_image(image), Tensor::of<int64_t>({1, 1}, {static_cast<int64_t>(step)}),
               Tensor::of<float>({1, 1}, {static_cast<float>(value)})})
      .reshaped(image.shape());
}

Tensor resized(const Tensor& image, const std::string& how, const Shape& shape) {
  const bool cubic = how.ends_with("bicubic"), nearest = how.ends_with("nearest-exact");
  const Attrs attrs{{"mode", std::string(nearest ? "nearest" : (cubic ? "cubic" : "linear"))},
                    {"antialias", int64_t{!nearest}},
                    {"cubic_coeff_a", -0.5},
                    {"exclude_outside", int64_t{!nearest}},
                    {"nearest_mode", std::string("round_prefer_ceil")}};
  return run1("Resize",
              {image, Tensor(), Tensor(), Tensor::of<int64_t>({3}, {shape[0], shape[1], shape[2]})},
              attrs);
}

Tensor places_of(std::vector<int64_t> numbers) {
  return Tensor::of<int64_t>({static_cast<int64_t>(numbers.size() / 4), 4}, numbers);
}

Attrs size_of_part(int64_t height, int64_t width, double fill = 0) {
  return {{"height", height}, {"width", width}, {"fill", fill}};
}

}  // namespace

TEST_CASE("each step on an image equals torchvision's") {
  const auto references = image_references();
  const Tensor& x = references.at("x");
  size_t compared = 0;
  for (const auto& [name, expected] : references) {
    const size_t equals = name.find('=');
    if (equals == std::string::npos || name.starts_with("resize")) continue;
    const bool gray = name.starts_with("gray:");
    INFO(name);
    const ImageStep step = kNamedSteps.at(name.substr(gray ? 5 : 0, equals - (gray ? 5 : 0)));
    const Tensor image = gray
                             ? Tensor::wrap(x.dtype(), {1, x.shape()[1], x.shape()[2]},
                                            const_cast<void*>(x.raw()), std::make_shared<Tensor>(x))
                             : x;
    check_close(augmented(image, step, std::stod(name.substr(equals + 1))), expected, 0, 1e-5);
    ++compared;
  }
  CHECK(compared == 27);
}

TEST_CASE("resized images equal torchvision's with antialiasing") {
  const auto references = image_references();
  size_t compared = 0;
  for (const auto& [name, expected] : references) {
    if (!name.starts_with("resize")) continue;
    INFO(name);
    check_close(resized(references.at("x"), name, expected.shape()), expected, 0, 1e-5);
    ++compared;
  }
  CHECK(compared == 6);
}

TEST_CASE("parts of images are cut out, padded, mirrored and turned upside down") {
  const Tensor x = counting(DType::u8, {4, 1, 2, 3});
  const Tensor y =
      run1("leat.CropImages", {x, places_of({0, 0, 0, 0, 0, 1, 0, 1, -1, -1, 1, 0, 5, 2, 0, 0})},
           size_of_part(2, 3, 9));
  check_identical(y, Tensor::of<uint8_t>({4, 1, 2, 3}, {0, 1,  2,  3, 4,  5,   //
                                                        9, 8,  7,  9, 11, 10,  //
                                                        9, 12, 13, 9, 9,  9,   //
                                                        9, 9,  9,  9, 9,  9}));
  check_tiles(
      "leat.CropImages",
      {random_tensor(DType::f32, {7, 2, 5, 4}, 1), random_tensor(DType::i64, {7, 4}, 2, -3, 3)},
      size_of_part(4, 5));
}

TEST_CASE("places far outside of an image give the fill alone") {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  const Tensor x = counting(DType::f32, {2, 3, 4});
  const Tensor y =
      run1("leat.CropImages",
           {x, places_of({kFar, 0, 0, 0, 0, std::numeric_limits<int64_t>::min(), 0, 1})},
           size_of_part(3, 4, 0.5));
  for (int64_t i = 0; i < y.elements(); ++i) CHECK(y.at(i) == 0.5);
}

TEST_CASE("an image takes its steps in their order, and unknown steps do nothing") {
  const Tensor x = random_tensor(DType::f32, {2, 3, 5, 6}, 3, 0, 1);
  const Tensor y = run1("leat.AugmentImages", {x, Tensor::of<int64_t>({2, 2}, {0, 99, 6, 1}),
                                               Tensor::of<float>({2, 2}, {1, 1, 2, 0.5f})});
  const int64_t image = 3 * 5 * 6;
  for (int64_t i = 0; i < image; ++i) {
    CHECK(y.at(i) == x.at(i));
    const float v = static_cast<float>(x.at(image + i));
    CHECK(static_cast<float>(y.at(image + i)) == std::min(std::floor(v * 4), 3.0f) * 0.25f * 0.5f);
  }
  check_tiles("leat.AugmentImages",
              {random_tensor(DType::f32, {7, 3, 5, 6}, 4, 0, 1),
               random_tensor(DType::i64, {7, 3}, 5, 0, 15), random_tensor(DType::f32, {7, 3}, 6)});
}

TEST_CASE("numbers that are not finite harm no image") {
  const float nan = std::nanf("");
  const Tensor x = Tensor::of<float>({1, 3, 1, 2}, {nan, 1e30f, -1e30f, 0.5f, nan, INFINITY});
  for (int64_t kind = 0; kind < kImageSteps; ++kind) {
    for (const float value : {nan, INFINITY, -INFINITY, 1e30f}) {
      const Tensor y = run1("leat.AugmentImages", {x, Tensor::of<int64_t>({1, 1}, {kind}),
                                                   Tensor::of<float>({1, 1}, {value})});
      CHECK(y.shape() == x.shape());
    }
  }
}

TEST_CASE("images of other shapes are refused") {
  const Tensor places = places_of({0, 0, 0, 0});
  CHECK(run_error("leat.CropImages", {counting(DType::u8, {1, 4}), places}, size_of_part(1, 1))
            .message() ==
        "leat.CropImages: expected images of [N,...,height,width], received [1,4]");
  CHECK(run_error("leat.CropImages", {counting(DType::u8, {2, 4, 4}), places}, size_of_part(1, 1))
            .message() ==
        "leat.CropImages: places: expected a row of 4 for each image, received [1,4]");
  CHECK(run_error("leat.CropImages", {counting(DType::u8, {1, 4, 4}), places}, size_of_part(0, 1))
            .message() == "leat.CropImages: height: expected 1 to 16777216, received 0");
  CHECK(run_error("leat.AugmentImages",
                  {counting(DType::f32, {1, 2, 4, 4}), Tensor::of<int64_t>({1, 1}, {1}),
                   Tensor::of<float>({1, 1}, {1})})
            .message() ==
        "leat.AugmentImages: expected images of 1 or 3 channels, received [1,2,4,4]");
}

}  // namespace leat::testing
