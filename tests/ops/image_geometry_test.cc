// The steps from an encoded image to a row: what they do, and that they follow from the stream.
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/images/geometry.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

const Bytes& picture_file(const std::string& name) {
  static std::map<std::string, Bytes> files;
  Bytes& bytes = files[name];
  if (bytes.empty())
    bytes = must(read_file(real_files(), std::string(LEAT_SOURCE_DIR) + "/tests/ops/images/" + name,
                           1 << 20));
  return bytes;
}

std::vector<uint8_t> row_with(const ImageGeometry& geometry, uint64_t position,
                              const std::string& name = "rgb.png") {
  must(check_image_geometry(geometry));
  std::vector<uint8_t> out(
      static_cast<size_t>(geometry.channels * geometry.height * geometry.width));
  must(load_image(picture_file(name), geometry, RandomStream(5, 0, position), out));
  return out;
}

// The planes of a part of rgb.png, which has 40x30 pixels.
std::vector<uint8_t> planes_of(const ImagePart& part, bool mirrored = false) {
  const auto image = must(decode_image(picture_file("rgb.png"), 3, part));
  std::vector<uint8_t> out(static_cast<size_t>(3 * part.width * part.height));
  copy_to_planes(image.view(), mirrored, out);
  return out;
}

TEST_CASE("an image is resized to the row, whatever its proportions") {
  const auto image = must(decode_image(picture_file("rgb.png"), 3));
  std::vector<uint8_t> resized(3 * 8 * 12), planes(resized.size());
  Resizer resizer;
  must(resizer.resize(image.view(), {}, 12, 8, ResizeFilter::bicubic, resized));
  copy_to_planes({resized.data(), 12, 8, 3, 36}, false, planes);
  ImageGeometry geometry{.height = 8, .width = 12, .filter = ResizeFilter::bicubic};
  CHECK(row_with(geometry, 0) == planes);
  copy_to_planes({resized.data(), 12, 8, 3, 36}, true, planes);
  geometry.flip = 1;
  CHECK(row_with(geometry, 0) == planes);
  CHECK(row_with({.height = 30, .width = 40}, 0) == planes_of({0, 0, 40, 30}));
}

TEST_CASE("a crop in the middle is where Python's rounding puts it") {
  // 40 - 11 = 29, whose half is 14.5, and 30 - 15 = 15, whose half is 7.5: to the even numbers.
  CHECK(row_with({.height = 15, .width = 11, .crop = ImageCrop::center}, 0) ==
        planes_of({14, 8, 11, 15}));
  // The shorter side becomes 20, the longer one 26: 40 x 20 / 30, rounded down.
  const auto image = must(decode_image(picture_file("rgb.png"), 3));
  std::vector<uint8_t> resized(3 * 26 * 20), planes(3 * 20 * 20);
  Resizer resizer;
  must(resizer.resize(image.view(), {}, 26, 20, ResizeFilter::bilinear, resized));
  copy_to_planes(ImageView{resized.data(), 26, 20, 3, 78}.part({3, 0, 20, 20}), false, planes);
  CHECK(row_with({.height = 20, .width = 20, .crop = ImageCrop::center, .short_side = 20}, 0) ==
        planes);
}

TEST_CASE("a random crop is one of all, each is drawn, and padding is black") {
  std::set<std::vector<uint8_t>> expected, drawn;
  for (int64_t y = 0; y < 3; ++y) {
    for (int64_t x = 0; x < 4; ++x) expected.insert(planes_of({x, y, 37, 28}));
  }
  const ImageGeometry geometry{.height = 28, .width = 37, .crop = ImageCrop::random};
  for (uint64_t position = 0; position < 200; ++position)
    drawn.insert(row_with(geometry, position));
  CHECK(drawn == expected);
  // With a padding, the corner of a row may lie outside of the image.
  const ImageGeometry padded{.height = 30, .width = 40, .crop = ImageCrop::random, .padding = 2};
  std::set<std::vector<uint8_t>> rows;
  for (uint64_t position = 0; position < 400; ++position) rows.insert(row_with(padded, position));
  CHECK(rows.size() == 25);
  CHECK(rows.contains(planes_of({0, 0, 40, 30})));
  const std::vector<uint8_t> whole = planes_of({0, 0, 40, 30});
  std::vector<uint8_t> lower(whole.size());  // the image two pixels lower and to the right
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 2; y < 30; ++y) {
      for (int64_t x = 2; x < 40; ++x)
        lower[static_cast<size_t>((c * 30 + y) * 40 + x)] =
            whole[static_cast<size_t>((c * 30 + y - 2) * 40 + x - 2)];
    }
  }
  CHECK(rows.contains(lower));
}

TEST_CASE("a random resized crop has areas and proportions of its ranges") {
  const ImageHeader header{ImageFormat::jpeg, 500, 375};
  const ImageGeometry geometry{.height = 8, .width = 8, .crop = ImageCrop::random_resized};
  double areas = 0, ratios = 0, least = 1, most = 0;
  constexpr int kDraws = 4000;
  for (uint64_t position = 0; position < kDraws; ++position) {
    const ImagePart part = draw_resized_part(header, geometry, RandomStream(1, 2, position));
    REQUIRE(part.x >= 0);
    REQUIRE(part.y >= 0);
    REQUIRE(part.x + part.width <= 500);
    REQUIRE(part.y + part.height <= 375);
    const double area = static_cast<double>(part.width * part.height) / (500 * 375);
    const double ratio = static_cast<double>(part.width) / static_cast<double>(part.height);
    REQUIRE(ratio > 0.74);
    REQUIRE(ratio < 1.35);
    least = std::min(least, area);
    most = std::max(most, area);
    areas += area / kDraws;
    ratios += std::log(ratio) / kDraws;
  }
  // torchvision's RandomResizedCrop gives 0.435 and 0.031 for this size over 20,000 draws.
  CHECK(areas == Approx(0.435).margin(0.01));
  CHECK(ratios == Approx(0.031).margin(0.008));
  CHECK(least < 0.085);
  CHECK(most > 0.95);
  // Nothing of these proportions fits ten times: the middle of the image is left.
  CHECK(draw_resized_part({ImageFormat::jpeg, 300, 10}, {.height = 8, .width = 8, .scale_min = 1},
                          RandomStream(1, 2, 3)) == ImagePart{143, 0, 13, 10});
}

TEST_CASE("a row follows from the seed and the position, on any thread") {
  const ImageGeometry geometry{
      .height = 9, .width = 9, .crop = ImageCrop::random_resized, .flip = 0.5};
  std::set<std::vector<uint8_t>> rows;
  for (uint64_t position = 0; position < 20; ++position) {
    const auto row = row_with(geometry, position, "420.jpg");
    std::vector<uint8_t> other;
    std::thread([&] { other = row_with(geometry, position, "420.jpg"); }).join();
    CHECK(row == other);
    rows.insert(row);
  }
  CHECK(rows.size() == 20);
}

TEST_CASE("half of the rows are mirrored where the probability is a half") {
  const ImageGeometry geometry{.height = 30, .width = 40, .flip = 0.5};
  const auto mirrored = planes_of({0, 0, 40, 30}, true);
  int count = 0;
  for (uint64_t position = 0; position < 400; ++position)
    count += row_with(geometry, position) == mirrored;
  CHECK(count > 160);
  CHECK(count < 240);
}

TEST_CASE("a geometry that cannot be is refused") {
  const auto error = [](ImageGeometry geometry) {
    return check_image_geometry(geometry).message();
  };
  CHECK(error({.height = 224, .width = 224}) == "");
  CHECK(error({}) == "size: expected at most 67108864 pixels, received 0x0");
  CHECK(error({.height = 65500, .width = 65500}) != "");
  CHECK(error({.height = 8, .width = 8, .channels = 4}) == "channels: expected 1 or 3, received 4");
  CHECK(error({.height = 8, .width = 8, .padding = 4}) != "");
  CHECK(error({.height = 8, .width = 8, .scale_min = 0}) != "");
  CHECK(error({.height = 8, .width = 8, .ratio_min = NAN}) != "");
  CHECK(error({.height = 8, .width = 8, .flip = 2}) == "flip: expected a probability, received 2");
  CHECK(image_crop_from_name("random_resized") == ImageCrop::random_resized);
  CHECK(!image_crop_from_name("middle"));
  std::vector<uint8_t> out(3 * 50 * 40);
  const Status small =
      load_image(picture_file("rgb.png"), {.height = 40, .width = 50, .crop = ImageCrop::center},
                 RandomStream(0, 0, 0), out);
  CHECK(small.message() ==
        "an image: expected at least 50x40 pixels to crop, received 40x30 with a padding of 0");
}

}  // namespace
}  // namespace leat
